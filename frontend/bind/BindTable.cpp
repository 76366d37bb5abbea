// SPDX-License-Identifier: Apache-2.0
// Python's view of tables.
#include "frontend/bind/Bind.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace sojourn::frontend {

at::ScalarType dtypeOf(const py::handle &dtype) {
  if (!THPDtype_Check(dtype.ptr())) {
    raise(ErrorKind::Error, "expected a torch.dtype, got " + std::string(py::str(dtype)));
  }
  return reinterpret_cast<THPDtype *>(dtype.ptr())->scalar_type;
}

namespace {

/// None leaves the choice to the table.
std::optional<at::ScalarType> chosen(const py::object &dtype) {
  return dtype.is_none() ? std::nullopt : std::optional(dtypeOf(dtype));
}

/// A str names one column alone, a list columns side by side.
Features featuresOf(const py::handle &features) {
  if (py::isinstance<py::str>(features)) {
    return features.cast<std::string>();
  }
  return features.cast<std::vector<std::string>>();
}

/// A dict gives several tensors their names.
BatchOptions optionsOf(const py::object &features) {
  BatchOptions options;
  if (!py::isinstance<py::dict>(features)) {
    options.features = featuresOf(features);
    return options;
  }
  for (auto [name, columns] : features.cast<py::dict>()) {
    options.named.emplace_back(name.cast<std::string>(), featuresOf(columns));
  }
  return options;
}

} // namespace

Source sourceOf(const py::object &source) {
  if (py::isinstance<py::str>(source)) {
    return source.cast<std::string>();
  }
  std::vector<std::pair<std::string, at::Tensor>> columns;
  for (auto [name, tensor] : source.cast<py::dict>()) {
    columns.emplace_back(py::str(name), tensor.cast<at::Tensor>());
  }
  return columns;
}

std::map<std::string, Meaning> meaningsOf(const std::map<std::string, PythonMeaning> &meanings) {
  std::map<std::string, Meaning> result;
  for (const auto &[column, given] : meanings) {
    const auto &[categories, unit, isFound] = given;
    Meaning &meaning = result[column];
    meaning.unit = unitOfNumber(unit);
    meaning.isFound = isFound;
    if (categories.is_none()) {
      continue;
    }
    for (const py::handle &each : categories) {
      if (py::isinstance<py::str>(each)) {
        meaning.texts.push_back(each.cast<std::string>());
      } else {
        meaning.numbers.push_back(each.cast<int64_t>());
      }
    }
  }
  return result;
}

py::object categoriesOf(const MeaningPtr &meaning) {
  if (!meaning || meaning->categories() == 0) {
    return py::none();
  }
  return meaning->texts.empty() ? py::tuple(py::cast(meaning->numbers)) : py::tuple(py::cast(meaning->texts));
}

void bindTable(py::module_ &m) {
  py::class_<Column>(m, "Column")
      .def_readonly("name", &Column::name)
      .def_property_readonly("dtype",
                             [](const Column &self) {
                               return py::reinterpret_borrow<py::object>(
                                   reinterpret_cast<PyObject *>(torch::getTHPDtype(self.dtype)));
                             })
      .def_readonly("bounds", &Column::bounds)
      .def_property_readonly("shape", [](const Column &self) { return py::tuple(py::cast(self.shape)); })
      .def_property_readonly("categories", [](const Column &self) { return categoriesOf(self.meaning); })
      .def_property_readonly("unit",
                             [](const Column &self) {
                               const Unit unit = self.meaning ? self.meaning->unit : Unit::None;
                               return unit == Unit::None ? std::optional<std::string>() : unitText(unit);
                             })
      .def_property_readonly("fill",
                             [](const Column &self) { return self.meaning ? self.meaning->fill : std::nullopt; })
      .def("__repr__", [](const Column &self) {
        std::string bounds = "None";
        if (self.bounds) {
          bounds = py::repr(py::cast(*self.bounds));
        }
        return "Column(name=" + std::string(py::repr(py::cast(self.name))) + ", dtype=torch." +
               std::string(c10::getDtypeNames(self.dtype).first) +
               ", shape=" + std::string(py::repr(py::tuple(py::cast(self.shape)))) + ", bounds=" + bounds + ")";
      });

  py::class_<Batches>(m, "Batches")
      .def("__len__", &Batches::size)
      .def_property_readonly("per_epoch", &Batches::perEpoch)
      .def("at", [](const Batches &self, int64_t index) { return self.at(index).tensors(); });

  py::class_<Table>(m, "Table")
      .def_property_readonly("name", &Table::name)
      .def_property_readonly("policy", &Table::policy)
      .def_property_readonly("description", [](const Table &self) { return self.dataset().description; })
      .def_property_readonly("tags", [](const Table &self) { return self.dataset().tags; })
      .def_property_readonly("columns", &Table::columns)
      .def_property_readonly("count", [](const Table &self) { return self.rows(); })
      .def("column", [](const Table &self, const std::string &name) { return self[name]; })
      .def("rows", [](const Table &self, const py::object &features,
                      const py::object &dtype) { return self.rows(featuresOf(features), chosen(dtype)); })
      .def("split", &Table::split)
      .def("batches",
           [](const Table &self, const py::object &features, const std::optional<std::string> &label, int64_t size,
              int64_t epochs, bool shuffle, int64_t seed, bool dropLast, const py::object &dtype,
              const py::object &labelDtype) {
             BatchOptions options = optionsOf(features);
             options.label = label;
             options.size = size;
             options.epochs = epochs;
             options.shuffle = shuffle;
             options.seed = seed;
             options.dropLast = dropLast;
             options.dtype = chosen(dtype);
             options.labelDtype = chosen(labelDtype);
             return self.batches(std::move(options));
           })
      .def("title", &Table::title)
      .def("defaults_text", &Table::defaults)
      .def_property_readonly("defaults",
                             [](const Table &self) {
                               const terms::Defaults &own = *self.dataset().defaults;
                               return std::make_tuple(own.noiseMultiplier, own.clip, own.metricBound);
                             })
      .def("cells", &Table::cells)
      .def("meanings", &Table::meanings)
      .def("__str__", &Table::str);

  m.def(
      "plain",
      [](const py::object &source, const std::string &name, const Ranges &bounds,
         const std::map<std::string, double> &fills, const std::vector<std::string> &columns,
         const std::map<std::string, PythonMeaning> &meanings, const Words &fillTexts, const WordPairs &boundTexts) {
        Source given = sourceOf(source);
        PlainOptions options{name, bounds, fills, columns, meaningsOf(meanings), fillTexts, boundTexts};
        py::gil_scoped_release unlock;
        return plain(given, options);
      },
      py::arg("source"), py::arg("name"), py::arg("bounds"), py::arg("fills"), py::arg("columns"),
      py::arg("meanings") = std::map<std::string, PythonMeaning>(), py::arg("fill_texts") = Words(),
      py::arg("bound_texts") = WordPairs());
  m.def("batch_indices", &batchIndices);
  m.def("split_indices", &splitIndices);
}

} // namespace sojourn::frontend
