// SPDX-License-Identifier: Apache-2.0
// A layer of functions over SQLite's own file system, and the book-keeping of what was not synced.
#include "test/owner/ledger/FaultDisk.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace sojourn::owner::ledger::test::fault {

namespace {

/// A file since its last sync.
struct Unsynced {
  bool exists = false;
  std::string before; ///< its bytes at the sync
  std::vector<std::pair<int64_t, size_t>> writes;
};

struct Disk {
  long at = 0, done = 0;
  Mode mode = Mode::kill;
  std::mt19937_64 random;
  std::map<std::string, Unsynced> files;
} disk;

std::string readAll(const std::string &path) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  std::string bytes(stream ? static_cast<size_t>(stream.tellg()) : 0, '\0');
  stream.seekg(0);
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

/// Puts back the bytes of the last sync, and of the writes after it a random part.
void cutPower() {
  for (auto &[path, file] : disk.files) {
    struct stat facts {};
    if (file.writes.empty() || stat(path.c_str(), &facts) != 0) {
      continue;
    }
    std::string now = readAll(path), after = file.before;
    bool all = disk.random() % 4 == 0, none = disk.random() % 4 == 0;
    for (auto [offset, size] : file.writes) {
      auto begin = static_cast<size_t>(offset), end = std::min(now.size(), begin + size);
      if (begin < end && (all || (!none && disk.random() % 2 == 0))) {
        after.resize(std::max(after.size(), end));
        std::copy(now.begin() + static_cast<long>(begin), now.begin() + static_cast<long>(end),
                  after.begin() + static_cast<long>(begin));
      }
    }
    std::ofstream(path, std::ios::binary | std::ios::trunc) << after;
  }
  // What processes share in memory does not outlive the power.
  for (auto &[path, file] : disk.files) {
    unlink((path + "-shm").c_str());
  }
}

Unsynced &fileAt(const std::string &path) {
  auto [found, fresh] = disk.files.try_emplace(path);
  if (fresh) {
    found->second.before = readAll(path);
  }
  return found->second;
}

/// SQLite's file, behind the layer's own head.
struct Layered {
  sqlite3_file head;
  const char *path; ///< SQLite keeps it for as long as the file is open; null: a temporary file
  sqlite3_file *real() { return reinterpret_cast<sqlite3_file *>(this + 1); }
};
Layered *layered(sqlite3_file *file) { return reinterpret_cast<Layered *>(file); }
sqlite3_vfs *below = nullptr;
sqlite3_vfs layer;
sqlite3_io_methods methods;

template <auto member, class... Rest>
int forward(sqlite3_file *file, Rest... rest) {
  sqlite3_file *real = layered(file)->real();
  return (real->pMethods->*member)(real, rest...);
}

int writeFile(sqlite3_file *file, const void *bytes, int size, sqlite3_int64 offset) {
  if (layered(file)->path) {
    operation("write", layered(file)->path, offset, static_cast<size_t>(size));
  }
  return forward<&sqlite3_io_methods::xWrite>(file, bytes, size, offset);
}
int truncateFile(sqlite3_file *file, sqlite3_int64 size) {
  if (layered(file)->path) {
    operation("truncate", layered(file)->path, size, 0);
  }
  return forward<&sqlite3_io_methods::xTruncate>(file, size);
}
int syncFile(sqlite3_file *file, int flags) {
  if (layered(file)->path) {
    operation("sync", layered(file)->path, 0, 0);
  }
  return forward<&sqlite3_io_methods::xSync>(file, flags);
}
int shmUnmap(sqlite3_file *file, int remove) { return forward<&sqlite3_io_methods::xShmUnmap>(file, remove); }
void shmBarrier(sqlite3_file *file) {
  sqlite3_file *real = layered(file)->real();
  real->pMethods->xShmBarrier(real);
}
int closeFile(sqlite3_file *file) {
  int state = forward<&sqlite3_io_methods::xClose>(file);
  file->pMethods = nullptr;
  return state;
}

int openFile(sqlite3_vfs *, const char *path, sqlite3_file *file, int flags, int *given) {
  auto *ours = layered(file);
  std::memset(ours, 0, sizeof(Layered));
  std::memset(ours->real(), 0, static_cast<size_t>(below->szOsFile));
  struct stat facts {};
  if (path && (flags & SQLITE_OPEN_CREATE) != 0 && stat(path, &facts) != 0) {
    operation("make", path, 0, 0);
  }
  int state = below->xOpen(below, path, ours->real(), flags, given);
  if (ours->real()->pMethods) {
    ours->path = path;
    ours->head.pMethods = &methods;
  }
  return state;
}
int removeFile(sqlite3_vfs *, const char *path, int syncFolder) {
  operation("remove", path, 0, 0);
  disk.files.erase(path);
  return below->xDelete(below, path, syncFolder);
}

} // namespace

void operation(const char *kind, const std::string &path, int64_t offset, size_t size) {
  if (++disk.done == disk.at) {
    if (disk.mode == Mode::power) {
      cutPower();
    }
    kill(getpid(), SIGKILL);
  }
  if (disk.mode == Mode::kill) {
    return;
  }
  if (std::strcmp(kind, "write") == 0) {
    fileAt(path).writes.emplace_back(offset, size);
  } else if (std::strcmp(kind, "sync") == 0 || std::strcmp(kind, "truncate") == 0) {
    // Noted before it is done, which is the same to a process that dies at operations only.
    Unsynced &file = fileAt(path);
    file.before = readAll(path);
    if (std::strcmp(kind, "truncate") == 0) {
      file.before.resize(static_cast<size_t>(offset));
    }
    file.writes.clear();
  }
}

void install() {
  if (below) {
    return;
  }
  below = sqlite3_vfs_find(nullptr);
  layer = *below;
  layer.zName = "fault";
  layer.szOsFile = static_cast<int>(sizeof(Layered)) + below->szOsFile;
  layer.xOpen = openFile;
  layer.xDelete = removeFile;
  methods.iVersion = 2; // no memory-mapped reads and writes, which no layer would see
  methods.xClose = closeFile;
  methods.xRead = forward<&sqlite3_io_methods::xRead, void *, int, sqlite3_int64>;
  methods.xWrite = writeFile;
  methods.xTruncate = truncateFile;
  methods.xSync = syncFile;
  methods.xFileSize = forward<&sqlite3_io_methods::xFileSize, sqlite3_int64 *>;
  methods.xLock = forward<&sqlite3_io_methods::xLock, int>;
  methods.xUnlock = forward<&sqlite3_io_methods::xUnlock, int>;
  methods.xCheckReservedLock = forward<&sqlite3_io_methods::xCheckReservedLock, int *>;
  methods.xFileControl = forward<&sqlite3_io_methods::xFileControl, int, void *>;
  methods.xSectorSize = [](sqlite3_file *file) { return forward<&sqlite3_io_methods::xSectorSize>(file); };
  methods.xDeviceCharacteristics = [](sqlite3_file *file) {
    return forward<&sqlite3_io_methods::xDeviceCharacteristics>(file);
  };
  methods.xShmMap = forward<&sqlite3_io_methods::xShmMap, int, int, int, void volatile **>;
  methods.xShmLock = forward<&sqlite3_io_methods::xShmLock, int, int, int>;
  methods.xShmBarrier = shmBarrier;
  methods.xShmUnmap = shmUnmap;
  sqlite3_vfs_register(&layer, /*makeDflt=*/1);
}

void arm(long at, Mode mode, uint64_t seed) {
  disk.at = at;
  disk.done = 0;
  disk.mode = mode;
  disk.random.seed(seed);
}

long count() { return disk.done; }

} // namespace sojourn::owner::ledger::test::fault
