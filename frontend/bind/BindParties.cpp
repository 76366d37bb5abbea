// SPDX-License-Identifier: Apache-2.0
// Groups of owners: sessions, joined tables, places of values.
#include "frontend/bind/Bind.h"

#include "frontend/flight/Borrow.h"
#include "frontend/recording/RemoteDevice.h"
#include "frontend/session/Session.h"
#include "frontend/tables/JoinedRows.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace sojourn::frontend {

namespace {

/// Roles that have the value, or rows of it, and whether each of them has all of it. None outside of groups, and of a
/// value that no step has computed yet. None, too, for torch's wrappers (of vmap, of grad), which are remote by their
/// device alone.
py::object placeOf(const at::Tensor &tensor) {
  const auto *impl = dynamic_cast<const RemoteTensorImpl *>(tensor.unsafeGetTensorImpl());
  if (!impl) {
    return py::none();
  }
  const Storage &storage = *impl->remoteStorage();
  const auto session = Session::of(storage.device);
  DeviceLock lock(storage.device->mutex());
  if (!session->isGroup() || (!storage.handle && !storage.upload.defined())) {
    return py::none();
  }
  const wire::Place place = PlaceTable::get().at(storage.place);
  std::vector<unsigned> roles;
  for (unsigned role = 0; role < session->parties(); ++role) {
    const bool hasRows = std::any_of(place.segments.begin(), place.segments.end(),
                                     [&](const wire::Place::Segment &segment) { return segment.role == role; });
    if (place.kind == wire::Place::Kind::Parts ? hasRows : place.isAt(role)) {
      roles.push_back(role);
    }
  }
  return py::make_tuple(place.kind != wire::Place::Kind::Parts, roles);
}

} // namespace

void bindParties(py::module_ &m) {
  m.def(
      "open_group",
      [](const std::vector<std::shared_ptr<Session>> &members, std::optional<bool> masked) {
        return Session::openGroup(members, masked);
      },
      py::arg("members"), py::arg("masked").none(true), py::call_guard<py::gil_scoped_release>());
  m.def(
      "is_masked", [](const std::shared_ptr<Session> &group) { return group->isMasked(); }, py::arg("group"));
  m.def(
      "join_tables",
      [](const std::shared_ptr<Session> &group, const std::vector<Table> &tables) { return joinTables(group, tables); },
      py::arg("group").none(true), py::arg("tables"));
  m.def(
      "borrow",
      [](const std::vector<at::Tensor> &tensors, const std::shared_ptr<Session> &group) {
        return borrowed(tensors, group);
      },
      py::arg("tensors"), py::arg("group"), py::call_guard<py::gil_scoped_release>(),
      "Members' tensors, without their graphs, as tensors of the group.");
  m.def("place", &placeOf, py::arg("tensor"),
        "(whether each has all of it, roles) of a tensor of a group; None before it is computed, and of others.");
}

} // namespace sojourn::frontend
