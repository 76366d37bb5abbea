// SPDX-License-Identifier: Apache-2.0
// Finds the innermost Python frame that belongs to the user; resolves its line only when asked.
#include "frontend/bind/Frames.h"

#include "frontend/recording/Origin.h"

#include <Python.h>
#include <frameobject.h>
#if PY_VERSION_HEX < 0x030C0000
#define Py_BUILD_CORE // for the interpreter's own frames
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#endif

#include <algorithm>
#include <array>
#include <iterator>
#include <unordered_map>

namespace sojourn::frontend {

namespace {

std::string libraryFolders[2]; // torch's and the package's
std::vector<std::string> installedFolders;

/// What is known of a code object. They are kept: an origin may outlive its function.
struct Code {
  const PyCodeObject *code = nullptr;
  bool isUsers = false;
  bool isInstalled = false;  ///< of another installed library
  bool isTorchs = false;     ///< other than Tensor's own methods
  bool isMode = false;       ///< of torch.set_default_device and its like, through which all calls pass
  bool entersEngine = false; ///< torch's one way in: what is further in belongs to custom Functions and hooks
};

Code look(PyCodeObject *code) {
  const char *file = PyUnicode_AsUTF8(code->co_filename);
  bool users = file != nullptr;
  if (!file) {
    PyErr_Clear();
  }
  auto isBelow = [&](const std::string &folder) {
    return !folder.empty() && std::string_view(file).starts_with(folder);
  };
  users = users && std::none_of(std::begin(libraryFolders), std::end(libraryFolders), isBelow) &&
          !std::string_view(file).starts_with("<frozen");
  const bool isInstalled = users && std::any_of(installedFolders.begin(), installedFolders.end(), isBelow);
  std::string_view inTorch;
  if (file && isBelow(libraryFolders[0])) {
    inTorch = std::string_view(file).substr(libraryFolders[0].size());
  }
  Py_INCREF(code);
  return {.code = code,
          .isUsers = users && !isInstalled,
          .isInstalled = isInstalled,
          .isTorchs = !inTorch.empty() && !inTorch.starts_with("_tensor"),
          .isMode = inTorch.starts_with("utils/_device") || inTorch.starts_with("overrides"),
          .entersEngine = PyUnicode_CompareWithASCIIString(code->co_name, "_engine_run_backward") == 0};
}

/// The interpreter lock guards it. Each op asks for several: the last few are found at once.
Code known(PyCodeObject *code) {
  static std::array<Code, 512> recent;
  static std::unordered_map<const void *, Code> all;
  Code &slot = recent[(reinterpret_cast<uintptr_t>(code) >> 5) % recent.size()];
  if (slot.code != code) {
    auto found = all.find(code);
    slot = found == all.end() ? all.emplace(code, look(code)).first->second : found->second;
  }
  return slot;
}

/// Calls `visit(code, instruction)` for each Python frame from the innermost outwards, until it says that it is enough.
/// Frame objects are not asked for where that can be helped: the interpreter would make one for each call.
template <class Visit>
void eachFrame(Visit visit) {
#if PY_VERSION_HEX < 0x030C0000
  for (const _PyInterpreterFrame *frame = PyThreadState_Get()->cframe->current_frame; frame; frame = frame->previous) {
    if (!_PyFrame_IsIncomplete(const_cast<_PyInterpreterFrame *>(frame)) &&
        visit(frame->f_code, _PyInterpreterFrame_LASTI(frame) * static_cast<int>(sizeof(_Py_CODEUNIT)))) {
      return;
    }
  }
#else
  PyFrameObject *frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  for (bool isEnough = false; frame && !isEnough;) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    isEnough = visit(code, PyFrame_GetLasti(frame));
    Py_DECREF(code);
    PyFrameObject *back = isEnough ? nullptr : PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
#endif
}

/// The user's innermost frame; for `backward`, outside of the innermost entry into the engine.
Frame captureWithLock(bool backward) {
  Frame found, installed;
  bool outside = !backward;
  eachFrame([&](PyCodeObject *code, int instruction) {
    const Code about = known(code);
    if (about.isInstalled && !installed.code) {
      installed = {code, instruction};
    }
    if (about.isUsers && (outside || !found.code)) {
      found = {code, instruction};
    }
    if (about.isUsers && outside) {
      return true;
    }
    outside = outside || about.entersEngine;
    return false;
  });
  return found.code ? found : installed;
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

Frame torchsFrame() {
  PyGILState_STATE state = PyGILState_Ensure();
  Frame found;
  eachFrame([&](PyCodeObject *code, int instruction) {
    const Code about = known(code);
    found = about.isTorchs ? Frame{code, instruction} : Frame();
    return !about.isMode;
  });
  PyGILState_Release(state);
  return found;
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

void installFrameSource(const std::string &torchFolder, const std::string &sojournFolder,
                        std::vector<std::string> installed) {
  libraryFolders[0] = torchFolder;
  libraryFolders[1] = sojournFolder;
  installedFolders = std::move(installed);
  setFrameSource({&capture, &resolve, &torchsFrame});
}

} // namespace sojourn::frontend
