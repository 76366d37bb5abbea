// SPDX-License-Identifier: Apache-2.0
// Goal: a step runs in a process that has the tables of its session and nothing else, and whose end is the end of one
// step. Method: what the system says of the processes of an owner; processes that are killed, stopped, and short of
// memory, at random moments; system calls, each tried. Seeds are printed.
#include "owner/Accounts.h"
#include "owner/process/Confine.h"
#include "owner/process/Ports.h"
#include "test/owner/Support.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace sojourn;
using namespace sojourn::owner;
using namespace sojourn::owner::test;
using namespace std::chrono_literals;

namespace {

/// w <- w + 1, and the new value is published. `elements`: of w.
runtime::EncodedProgram countProgram(size_t elements) {
  const std::string type = "tensor<" + std::to_string(elements) + "xf32>";
  return encode(moduleText("(%w: " + type + " {sojourn.kind = \"state\"}) -> (" + type +
                               " {sojourn.result = \"commit\", sojourn.target = 0 : i64}, " + type +
                               " {sojourn.result = \"publish\"})",
                           "    %o = sojourn.constant 1.0 : f32\n    %n = sojourn.add %w, %o : " + type +
                               ", tensor<f32>\n    return %n, %n : " + type + ", " + type));
}

runtime::EncodedProgram keep(size_t elements) {
  const std::string type = "tensor<" + std::to_string(elements) + "xf32>";
  return encode(
      moduleText("(%x: " + type + " {sojourn.kind = \"upload\"}) -> (" + type + " {sojourn.result = \"keep\"})",
                 "    return %x : " + type));
}

struct Processes : testing::Test {
  World world;
  TemporaryFolder folder;
  std::shared_ptr<WorkerProcesses> house;
  std::unique_ptr<Owner> owner;

  void start(Limits limits = {}, bool onDisk = false) {
    ProcessOptions options;
    options.program = SOJOURN_WORKER_TOOL;
    options.most = limits.processes;
    options.bytes = limits.processBytes;
    auto started = WorkerProcesses::start(options);
    ASSERT_TRUE(bool(started)) << llvm::toString(started.takeError());
    house = std::move(*started);
    world.store = onDisk ? folder.file("store") : "";
    Environment environment = world.environment();
    environment.worker = processWorkers(house);
    owner = std::make_unique<Owner>(environment, limits);
    ASSERT_EQ(owner->status(), "");
  }

  /// A client that keeps zeros as handle 1.
  Client counter(size_t elements, const std::string &name = "ada") {
    Client client(*owner, name);
    StepRequest step;
    step.uploads = {f32({static_cast<int64_t>(elements)}, std::vector<float>(elements, 0))};
    step.results = {1};
    EXPECT_EQ(client.run(keep(elements), step).error(), "");
    return client;
  }
  /// Adds 1: all elements of the new value, or the error.
  static std::pair<float, std::string> count(Client &client, const runtime::EncodedProgram &program) {
    StepRequest step;
    step.states = {1};
    Reply reply = client.run(program, step);
    if (std::string error = reply.error(); !error.empty()) {
      return {0, error};
    }
    const auto found = values<float>(reply.published(0));
    EXPECT_EQ(found, std::vector<float>(found.size(), found[0])) << "a value of two steps";
    return {found[0], ""};
  }
};

std::string linkOf(const std::string &path) {
  std::error_code ignored;
  return std::filesystem::read_symlink(path, ignored).string();
}

bool isRunning(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  file >> number >> name >> state;
  return !state.empty() && state != "Z" && state != "X";
}

uint64_t seed() {
  const char *given = std::getenv("SOJOURN_TEST_SEED");
  const uint64_t value = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::printf("SOJOURN_TEST_SEED=%lu\n", static_cast<unsigned long>(value));
  return value;
}

/// How a process ends that confines itself and then asks the system for something.
int statusAfter(const std::function<long()> &ask) {
  const pid_t child = fork();
  if (child == 0) {
    if (llvm::Error error = confine(0, 0)) {
      llvm::consumeError(std::move(error));
      _exit(99);
    }
    errno = 0;
    const long result = ask();
    _exit(result == -1 && errno == EPERM ? 1 : result == -1 ? 2 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

} // namespace

TEST_F(Processes, CountInStatesOfEverySize) {
  start();
  for (size_t elements : {size_t{3}, size_t{16'383}, size_t{16'384}, size_t{100'000}, size_t{1'000'000}}) {
    Client client = counter(elements);
    const auto program = countProgram(elements);
    for (float step = 1; step <= 5; ++step) {
      EXPECT_EQ(count(client, program), std::pair(step, std::string())) << elements;
    }
  }
}

TEST_F(Processes, HaveNoDescriptorsButTheirSocketAndTables) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root may look into a process that cannot be traced";
  }
  start({}, /*onDisk=*/true);
  registerNumbers(*owner, "numbers", Policy::open);
  registerNumbers(*owner, "others", Policy::open);
  Client client(*owner);
  StepRequest step;
  step.tables = {"numbers"};
  ASSERT_EQ(client.run(sumProgram(), step).error(), "");
  ASSERT_FALSE(house->pids().empty());
  size_t sockets = 0, tables = 0;
  for (pid_t pid : house->pids()) {
    for (const auto &entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
      const std::string target = linkOf(entry.path());
      const bool isSocket = target.starts_with("socket:");
      sockets += isSocket ? 1 : 0;
      if (target.starts_with(world.store + "/datasets/")) {
        ++tables;
        std::ifstream info("/proc/" + std::to_string(pid) + "/fdinfo/" + entry.path().filename().string());
        const std::string text((std::istreambuf_iterator<char>(info)), {});
        EXPECT_NE(text.find("0\nmnt_id"), std::string::npos) << "to be read alone: " << text;
        continue;
      }
      EXPECT_TRUE(isSocket || target == "/dev/null" || target.starts_with("/memfd:sojourn")) << target;
    }
    std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
    for (std::string line; std::getline(maps, line);) {
      EXPECT_EQ(line.find("catalogue"), std::string::npos) << line;
      EXPECT_EQ(line.find("ledger"), std::string::npos) << line;
      EXPECT_EQ(line.find("rw-s /memfd:sojourn-table"), std::string::npos) << line;
    }
  }
  EXPECT_EQ(sockets, house->pids().size()) << "one each";
  EXPECT_EQ(tables, 0U) << "what is mapped needs no descriptor";
}

TEST_F(Processes, MapTablesOfPaidStepsAlone) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root may look into a process that cannot be traced";
  }
  start({}, /*onDisk=*/true);
  registerNumbers(*owner, "paid", Policy::open);
  registerNumbers(*owner, "secret", Policy::privateOnly); // no grant
  auto mapped = [&] {
    std::set<std::string> found;
    for (pid_t pid : house->pids()) {
      std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
      for (std::string line; std::getline(maps, line);) {
        if (const size_t at = line.find(folder.path); at != std::string::npos) {
          EXPECT_NE(line.find(" r--s "), std::string::npos) << "to be read alone: " << line;
          found.insert(line.substr(at));
        }
      }
    }
    return found.size();
  };
  Client client(*owner);
  StepRequest step;
  step.tables = {"secret"};
  EXPECT_NE(client.run(sumProgram(), step).error(), "");
  EXPECT_EQ(mapped(), 0U);
  step.tables = {"paid"};
  ASSERT_EQ(client.run(sumProgram(), step).error(), "");
  EXPECT_EQ(mapped(), 1U);
}

TEST_F(Processes, HaveNoKeysInTheirMemory) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root may read the memory of another process";
  }
  setenv("SOJOURN_STORE_PASSWORD", "a secret of the environment 7d1f", 1);
  setenv("OWNER_TOKEN", "a token of the environment 91ac", 1);
  start({}, /*onDisk=*/true);
  registerNumbers(*owner, "numbers", Policy::open);
  Client client(*owner);
  StepRequest step;
  step.tables = {"numbers"};
  ASSERT_EQ(client.run(sumProgram(), step).error(), "");
  std::ifstream file(world.store + "/owner.key", std::ios::binary);
  const std::string key((std::istreambuf_iterator<char>(file)), {});
  ASSERT_GE(key.size(), 32U);
  std::vector<std::pair<std::string, std::string>> secrets = {{"key of the owner", key.substr(0, 32)},
                                                              {"variable", "a token of the environment 91ac"},
                                                              {"own variable", "a secret of the environment 7d1f"}};
  std::vector<pid_t> all = house->pids();
  all.push_back(house->zygote());
  all.push_back(getpid());
  for (pid_t pid : all) {
    std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
    std::ifstream memory("/proc/" + std::to_string(pid) + "/mem", std::ios::binary);
    ASSERT_TRUE(memory.is_open());
    std::set<std::string> found;
    for (std::string line; std::getline(maps, line);) {
      uint64_t from = 0, to = 0;
      char mode[8] = {};
      if (std::sscanf(line.c_str(), "%lx-%lx %7s", &from, &to, mode) != 3 || mode[1] != 'w' || to - from > (1u << 28)) {
        continue; // what cannot be written has been in a file
      }
      std::string bytes(to - from, '\0');
      memory.clear();
      memory.seekg(static_cast<std::streamoff>(from));
      memory.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      bytes.resize(static_cast<size_t>(memory.gcount()));
      for (const auto &[name, secret] : secrets) {
        if (bytes.find(secret) != std::string::npos) {
          found.insert(name);
        }
      }
    }
    if (pid == getpid()) {
      EXPECT_EQ(found.size(), secrets.size()) << "the search finds what is there";
    } else {
      EXPECT_TRUE(found.empty()) << *found.begin() << " in process " << pid;
    }
  }
}

TEST_F(Processes, AreKilledForWhatNoLibraryNeeds) {
  const long self = getpid(), parent = getppid();
  const std::pair<const char *, std::function<long()>> deadly[] = {
      {"ptrace", [&] { return syscall(SYS_ptrace, 16, parent, 0, 0); }},
      {"process_vm_readv", [&] { return syscall(SYS_process_vm_readv, parent, nullptr, 0, nullptr, 0, 0); }},
      {"process_vm_writev", [&] { return syscall(SYS_process_vm_writev, parent, nullptr, 0, nullptr, 0, 0); }},
      {"pidfd_getfd", [] { return syscall(SYS_pidfd_getfd, 3, 0, 0); }},
      {"io_uring_setup", [] { return syscall(SYS_io_uring_setup, 1, nullptr); }},
      {"execve", [] { return syscall(SYS_execve, "/bin/true", nullptr, nullptr); }},
      {"kill", [&] { return syscall(SYS_kill, self, 0); }},
      {"tgkill", [&] { return syscall(SYS_tgkill, self, self, 0); }},
      {"fork", [] { return syscall(SYS_fork); }},
      {"clone", [] { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }},
      {"socket", [] { return syscall(SYS_socket, 2, 1, 0); }},
      {"connect", [] { return syscall(SYS_connect, 3, nullptr, 0); }},
      {"unshare", [] { return syscall(SYS_unshare, 0x10000000); }},
      {"setuid", [] { return syscall(SYS_setuid, 0); }},
      {"bpf", [] { return syscall(SYS_bpf, 0, nullptr, 0); }},
      {"userfaultfd", [] { return syscall(SYS_userfaultfd, 0); }},
      {"mount", [] { return syscall(SYS_mount, "", "", "", 0, nullptr); }},
  };
  for (const auto &[name, ask] : deadly) {
    const int status = statusAfter(ask);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) << name << ": status " << status;
  }
  const std::pair<const char *, std::function<long()>> refused[] = {
      {"open", [] { return syscall(SYS_openat, -100, "/etc/passwd", 0); }},
      {"stat", [] { return syscall(SYS_stat, "/etc/passwd", nullptr); }},
      {"readlink", [] { return syscall(SYS_readlink, "/proc/self/exe", nullptr, 0); }},
      {"unlink", [] { return syscall(SYS_unlink, "/tmp/none"); }},
      {"write", [] { return syscall(SYS_write, 2, "x", 1); }},
      {"ioctl", [] { return syscall(SYS_ioctl, 2, 0x5412, "x"); }},
      {"dumpable", [] { return syscall(SYS_prctl, 4, 1, 0, 0, 0); }},
      {"limits", [] { return syscall(SYS_prlimit64, getppid(), 7, nullptr, nullptr); }},
      {"inotify", [] { return syscall(SYS_inotify_init1, 0); }},
      {"settimeofday", [] { return syscall(SYS_settimeofday, nullptr, nullptr); }},
      {"unknown", [] { return syscall(5'000); }},
  };
  for (const auto &[name, ask] : refused) {
    const int status = statusAfter(ask);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << name << ": status " << status;
  }
  const int status = statusAfter([] { return std::thread([] {}).join(), 0L; });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "threads: status " << status;
}

TEST_F(Processes, CannotBeLookedInto) {
  start();
  counter(3);
  for (pid_t pid : house->pids()) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    std::string text((std::istreambuf_iterator<char>(status)), {});
    EXPECT_NE(text.find("Seccomp:\t2"), std::string::npos) << text;
    EXPECT_NE(text.find("NoNewPrivs:\t1"), std::string::npos) << text;
    std::ifstream limits("/proc/" + std::to_string(pid) + "/limits");
    for (std::string line; std::getline(limits, line);) {
      if (line.starts_with("Max core file size")) {
        EXPECT_NE(line.find(" 0 "), std::string::npos) << line;
      }
    }
    if (geteuid() == 0) {
      EXPECT_NE(text.find("Uid:\t65534\t65534\t65534"), std::string::npos) << text;
      EXPECT_NE(text.find("CapEff:\t0000000000000000"), std::string::npos) << text;
    }
  }
}

TEST_F(Processes, ACrashEndsOneStepOfOneSession) {
  start();
  const auto program = countProgram(50'000);
  Client ada = counter(50'000, "ada"), bob = counter(50'000, "bob");
  ASSERT_EQ(count(ada, program).first, 1);
  ASSERT_EQ(count(bob, program).first, 1);
  for (int round = 2; round < 6; ++round) {
    for (pid_t pid : house->pids()) {
      ASSERT_EQ(kill(pid, SIGKILL), 0);
      while (isRunning(pid)) {
        std::this_thread::sleep_for(1ms);
      }
    }
    // Between steps it is not even seen: another process adopts the values.
    EXPECT_EQ(count(ada, program), std::pair(static_cast<float>(round), std::string()));
    EXPECT_EQ(count(bob, program), std::pair(static_cast<float>(round), std::string()));
  }
}

TEST_F(Processes, AreKilledAtRandomMoments) {
  start();
  std::mt19937_64 random(seed());
  std::atomic<bool> isOver = false;
  std::atomic<int> killed = 0;
  std::thread killer([&] {
    while (!isOver) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 9'000));
      const auto pids = house->pids();
      if (!pids.empty() && kill(pids[random() % pids.size()], SIGKILL) == 0) {
        ++killed;
      }
    }
  });
  auto session = [&](size_t elements) {
    const auto program = countProgram(elements);
    Client client(*owner, "ada");
    float value = 0;
    int failures = 0;
    const auto until = std::chrono::steady_clock::now() + 6s;
    StepRequest first;
    first.uploads = {f32({static_cast<int64_t>(elements)}, std::vector<float>(elements, 0))};
    first.results = {1};
    while (client.run(keep(elements), first).error() != "") {
      ++failures;
    }
    while (std::chrono::steady_clock::now() < until) {
      const auto [found, error] = count(client, program);
      if (error.empty()) {
        EXPECT_EQ(found, ++value);
      } else {
        EXPECT_EQ(error.find("Execution: the process"), 0U) << error;
        ++failures;
      }
    }
    std::printf("%zu elements: %g steps, %d failures\n", elements, static_cast<double>(value), failures);
    EXPECT_GT(value, 20);
    EXPECT_GT(failures, 0);
  };
  std::thread other([&] { session(40'000); });
  session(1'000);
  other.join();
  isOver = true;
  killer.join();
  EXPECT_GT(killed, 100);
}

TEST_F(Processes, ChargesOfStepsWhoseProcessIsKilledStand) {
  start({}, /*onDisk=*/true);
  std::vector<double> rows(64, 1);
  RegisterOptions options;
  options.name = "numbers";
  options.bounds = {{"a", {0, 10}}};
  options.subject = "";
  ASSERT_EQ(errorText(owner->registerDataset({"", {{"a", runtime::Element::f64, 64, rows.data()}}}, options)), "");
  ASSERT_EQ(errorText(owner->setCap("numbers", 1e6, 1e-5)), "");
  ASSERT_EQ(errorText(owner->grant(kLocalClient, "numbers", 1e5, 1e-6)), "");
  const auto program = encode(moduleText(
      "(%t: !sojourn.table<?, \"a\" : f64> {sojourn.kind = \"table\"}) -> (tensor<f64> {sojourn.result = \"publish\"})",
      "    %i = sojourn.iota dim = 0 : tensor<64xi64>\n"
      "    %x = sojourn.read_rows %t, %i, columns = [\"a\"] : !sojourn.table<?, \"a\" : f64>, tensor<64xi64> -> "
      "tensor<64xf64>\n"
      "    %s = sojourn.reduce_sum %x, dims = [0] : tensor<64xf64>\n    return %s : tensor<f64>"));
  Client client(*owner);
  StepRequest step;
  step.tables = {"numbers"};
  step.spending.releases = {{.epsilon = 1.0, .delta = 1e-9}};
  auto left = [&] { return owner->accounts().budget(kLocalClient, "numbers")->epsilonLeft; };
  const std::string first = client.run(program, step).error();
  ASSERT_EQ(first, "");
  std::mt19937_64 random(seed());
  std::atomic<bool> isOver = false;
  std::thread killer([&] {
    while (!isOver) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 80'000));
      for (pid_t pid : house->pids()) {
        kill(pid, SIGKILL);
      }
    }
  });
  int done = 0, failed = 0;
  double before = left();
  for (int at = 0; at < 400; ++at) {
    const std::string error = client.run(program, step).error();
    const double after = left();
    (error.empty() ? done : failed) += 1;
    EXPECT_LE(after, before) << error;
    if (error.empty()) {
      EXPECT_LT(after, before) << "a release that nothing was charged for";
    }
    before = after;
  }
  isOver = true;
  killer.join();
  std::printf("%d steps, %d failures\n", done, failed);
  EXPECT_GT(done, 0);
  EXPECT_GT(failed, 0);
  owner.reset();
  start({}, /*onDisk=*/true);
  EXPECT_EQ(left(), before) << "after the owner has started again";
}

TEST_F(Processes, AStepThatHangsEndsInTimeAndOthersGoOn) {
  Limits limits;
  limits.stepMs = 700;
  start(limits);
  const auto program = countProgram(3);
  Client ada = counter(3, "ada");
  ASSERT_EQ(count(ada, program).first, 1);
  const std::vector<pid_t> first = house->pids();
  Client bob = counter(3, "bob");
  ASSERT_EQ(count(bob, program).first, 1);
  for (pid_t pid : first) {
    kill(pid, SIGSTOP);
  }
  const auto begin = std::chrono::steady_clock::now();
  std::thread hanging([&] {
    const auto [value, error] = count(ada, program);
    EXPECT_EQ(error.find("Stopped: "), 0U) << error;
  });
  for (float step = 2; step < 50; ++step) {
    EXPECT_EQ(count(bob, program), std::pair(step, std::string()));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 600ms) << "bob waits for ada's process";
  hanging.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2'200ms);
  for (pid_t pid : first) { // those that still prove are others'
    kill(pid, SIGCONT);
  }
  EXPECT_EQ(count(ada, program), std::pair(2.0F, std::string()));
}

TEST_F(Processes, AreFewerThanSessions) {
  Limits limits;
  limits.processes = 3;
  start(limits);
  const auto program = countProgram(20'000);
  std::vector<Client> clients;
  for (int at = 0; at < 8; ++at) {
    clients.push_back(counter(20'000, "client " + std::to_string(at)));
  }
  for (float step = 1; step < 4; ++step) {
    for (Client &client : clients) {
      EXPECT_EQ(count(client, program), std::pair(step, std::string()));
      EXPECT_LE(house->count(), 3U);
    }
  }
}

TEST_F(Processes, MemoryOfOneIsBounded) {
  Limits limits;
  limits.processBytes = size_t{256} << 20;
  start(limits);
  const auto program = countProgram(3);
  Client client = counter(3);
  ASSERT_EQ(count(client, program).first, 1);
  // Half a gigabyte of a state that is made, and one that is computed.
  const std::string type = "tensor<134217728xf32>";
  const auto large = encode(moduleText("() -> (" + type + " {sojourn.result = \"keep\"})",
                                       "    %i = sojourn.iota dim = 0 : " + type + "\n    return %i : " + type));
  StepRequest step;
  step.results = {2};
  const std::string error = client.run(large, step).error();
  EXPECT_EQ(error.find("Limit: "), 0U) << error;
  EXPECT_EQ(count(client, program), std::pair(2.0F, std::string()));
}

TEST_F(Processes, EndWithTheFrontAndTheSession) {
  start();
  std::vector<pid_t> all;
  {
    Client client = counter(3);
    all = house->pids();
    ASSERT_FALSE(all.empty());
    client.send(byeBytes(client.session));
    owner->handle(helloBytes("tidies"), Peer::owner);
  }
  const pid_t zygote = house->zygote();
  owner.reset();
  house.reset();
  for (int wait = 0; wait < 100 && (isRunning(zygote) || std::any_of(all.begin(), all.end(), isRunning)); ++wait) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_FALSE(isRunning(zygote));
  EXPECT_TRUE(std::none_of(all.begin(), all.end(), isRunning));
}

TEST_F(Processes, BeginAgainWithTheProcessThatStartsThem) {
  start();
  const auto program = countProgram(30'000);
  Client client = counter(30'000);
  ASSERT_EQ(count(client, program).first, 1);
  const pid_t gone = house->zygote();
  ASSERT_EQ(kill(gone, SIGKILL), 0);
  while (isRunning(gone)) {
    std::this_thread::sleep_for(1ms);
  }
  for (pid_t pid : house->pids()) {
    for (int wait = 0; wait < 500 && isRunning(pid); ++wait) {
      std::this_thread::sleep_for(1ms);
    }
  }
  EXPECT_EQ(count(client, program), std::pair(2.0F, std::string()));
  EXPECT_NE(house->zygote(), gone);
}

TEST_F(Processes, AnUploadGoesOnInAnotherProcess) {
  start();
  const size_t elements = 60'000;
  std::vector<float> sent(elements);
  std::iota(sent.begin(), sent.end(), 0.F);
  const std::string data = bytes(sent), half = data.substr(0, data.size() / 2), rest = data.substr(data.size() / 2);
  Client client(*owner, "ada");
  ASSERT_EQ(client.send(uploadBytes(client.session, 9, data.size(), 0, half)).error(), "");
  for (pid_t pid : house->pids()) {
    kill(pid, SIGKILL);
    while (isRunning(pid)) {
      std::this_thread::sleep_for(1ms);
    }
  }
  ASSERT_EQ(client.send(uploadBytes(client.session, 9, data.size(), half.size(), rest)).error(), "");
  StepRequest step;
  step.uploads = {{static_cast<uint8_t>(runtime::Element::f32), {static_cast<int64_t>(elements)}, "", 9}};
  step.results = {1};
  ASSERT_EQ(client.run(keep(elements), step).error(), "");
  const std::string type = "tensor<" + std::to_string(elements) + "xf32>";
  StepRequest publish;
  publish.states = {1};
  Reply reply = client.run(encode(moduleText("(%w: " + type + " {sojourn.kind = \"state\"}) -> (" + type +
                                                 " {sojourn.result = \"publish\"})",
                                             "    return %w : " + type)),
                           publish);
  ASSERT_EQ(reply.error(), "");
  EXPECT_EQ(values<float>(reply.published(0)), sent);
}

TEST_F(Processes, DescribeEachProgramInOneOfItsOwn) {
  start();
  WorkerStub programs(processWorkers(house)());
  std::vector<DescribedCode> codes;
  std::set<pid_t> seen;
  for (size_t elements = 1; elements <= 3; ++elements) {
    const auto program = countProgram(elements);
    auto described = programs.describe({program.program.data(), program.program.size()},
                                       {program.debug.data(), program.debug.size()}, {});
    ASSERT_TRUE(bool(described)) << errorText(described.takeError());
    EXPECT_EQ(described->facts.results.size(), 2U);
    codes.push_back(std::move(*described));
    const std::vector<pid_t> now = house->pids();
    EXPECT_EQ(now.size(), elements);
    seen.insert(now.begin(), now.end());
  }
  EXPECT_EQ(seen.size(), 3U);
  codes.clear();
  EXPECT_EQ(house->count(), 0U) << "they end with their programs";
}
