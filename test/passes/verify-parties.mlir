// Roles and parts of arguments as core form demands them.
// RUN: sojourn-opt %s -split-input-file --sojourn-verify-core --verify-diagnostics=only-expected

// expected-error@below {{has sojourn.parties = 1 : i64, expected an i64 from 2 to 16}}
module attributes {sojourn.parties = 1 : i64, sojourn.promotion = "torch"} {
func.func @step() {
  return
}
}

// -----

// expected-error@below {{has sojourn.parties = 17 : i64, expected an i64 from 2 to 16}}
module attributes {sojourn.parties = 17 : i64, sojourn.promotion = "torch"} {
func.func @step() {
  return
}
}

// -----

// expected-error@below {{has sojourn.parties = "two", expected an i64 from 2 to 16}}
module attributes {sojourn.parties = "two", sojourn.promotion = "torch"} {
func.func @step() {
  return
}
}

// -----

module attributes {sojourn.promotion = "torch"} {
// expected-error@below {{argument #0 has sojourn.party in a module without sojourn.parties}}
func.func @step(%x: tensor<3xf32> {sojourn.kind = "state", sojourn.party = 0 : i64}) {
  return
}
}

// -----

module attributes {sojourn.promotion = "torch"} {
// expected-error@below {{argument #0 has sojourn.parts in a module without sojourn.parties}}
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}) {
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
// expected-error@below {{argument #0 of kind table has no role, expected one role}}
func.func @step(%t: !sojourn.table<?, "age" : f64> {sojourn.kind = "table"}) {
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
// expected-error@below {{argument #0 of kind slot has a role, expected neither}}
func.func @step(%k: tensor<i64> {sojourn.kind = "slot", sojourn.party = 0 : i64}) {
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
// expected-error@below {{argument #0 of kind state has a role and parts, expected one of them}}
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.party = 0 : i64, sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}) {
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
// expected-error@below {{argument #0 has sojourn.party = 2 : i64, expected an i64 from 0 to 1}}
func.func @step(%x: tensor<3xf32> {sojourn.kind = "state", sojourn.party = 2 : i64}) {
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
// expected-error@below {{argument #0 has sojourn.party = -1 : i64, expected an i64 from 0 to 1}}
func.func @step(%x: tensor<3xf32> {sojourn.kind = "state", sojourn.party = -1 : i64}) {
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
// expected-error@below {{argument #0 has a part at role 2, expected 0 to 1}}
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 2], rows = [2, 4], stride = 3>}) {
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
// expected-error@below {{argument #0 has sojourn.parts = 3 : i64, expected #sojourn.parts<...>}}
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = 3 : i64}) {
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
// expected-error@below {{argument #0 of type 'tensor<6x3xf32>' has 5 rows at stride 3, which are no part of one dim}}
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 3], stride = 3>}) {
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
// expected-error@below {{argument #0 has more rows in its parts than elements of 'tensor<2x1xf32>'}}
func.func @step(%x: tensor<2x1xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 1>}) {
  return
}
}
