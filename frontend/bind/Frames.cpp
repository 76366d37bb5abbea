// SPDX-License-Identifier: Apache-2.0
// Finds the innermost Python frame that belongs to the user; resolves its line only when asked.
#include "frontend/bind/Frames.h"

#include "frontend/recording/Origin.h"

#include <Python.h>
#include <frameobject.h>

#include <mutex>
#include <unordered_map>

namespace sojourn::frontend {

namespace {

std::string libraryFolders[2];

/// Whether a code object is the user's. Code objects are kept: an origin may outlive its function.
/// The interpreter lock guards it.
std::unordered_map<const void *, bool> &knownCode() {
  static std::unordered_map<const void *, bool> known;
  return known;
}

bool isUsers(PyCodeObject *code) {
  auto &known = knownCode();
  if (auto it = known.find(code); it != known.end()) {
    return it->second;
  }
  const char *file = PyUnicode_AsUTF8(code->co_filename);
  bool users = file != nullptr;
  if (!file) {
    PyErr_Clear();
  }
  for (const std::string &folder : libraryFolders) {
    users = users && (folder.empty() || std::string_view(file).substr(0, folder.size()) != folder);
  }
  users = users && std::string_view(file).substr(0, 7) != "<frozen";
  Py_INCREF(code);
  known.emplace(code, users);
  return users;
}

/// torch's one way into the engine: what is further in belongs to custom Functions and hooks.
bool entersEngine(PyCodeObject *code) {
  return PyUnicode_CompareWithASCIIString(code->co_name, "_engine_run_backward") == 0;
}

/// The user's innermost frame; for `backward`, outside of the innermost entry into the engine.
Frame captureWithLock(bool backward) {
  Frame found;
  bool outside = !backward;
  PyFrameObject *frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    if (isUsers(code)) {
      if (outside || !found.code) {
        found = {code, PyFrame_GetLasti(frame)};
      }
      if (outside) {
        Py_DECREF(code);
        Py_DECREF(frame);
        return found;
      }
    }
    outside = outside || entersEngine(code);
    Py_DECREF(code);
    PyFrameObject *back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  return found;
}

Frame capture(bool haveLock, bool backward) {
  if (haveLock && PyGILState_Check()) {
    return captureWithLock(backward);
  }
  PyGILState_STATE state = PyGILState_Ensure();
  Frame frame = captureWithLock(backward);
  PyGILState_Release(state);
  return frame;
}

SourceLine resolve(const Frame &frame) {
  PyGILState_STATE state = PyGILState_Ensure();
  auto *code = static_cast<PyCodeObject *>(const_cast<void *>(frame.code));
  SourceLine line;
  if (const char *file = PyUnicode_AsUTF8(code->co_filename)) {
    line.file = file;
    line.line = PyCode_Addr2Line(code, frame.instruction);
  } else {
    PyErr_Clear();
  }
  PyGILState_Release(state);
  return line;
}

} // namespace

void installFrameSource(const std::string &torchFolder, const std::string &sojournFolder) {
  libraryFolders[0] = torchFolder;
  libraryFolders[1] = sojournFolder;
  setFrameSource({&capture, &resolve});
}

} // namespace sojourn::frontend
