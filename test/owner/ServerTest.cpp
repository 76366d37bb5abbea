// SPDX-License-Identifier: Apache-2.0
// The socket loop and the command line: the only tests that leave the function of bytes.
#include "owner/Budget.h"
#include "owner/Server.h"
#include "test/owner/Requester.h"
#include "test/owner/Support.h"

#include <array>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <sys/wait.h>
#include <thread>
#include <tuple>
#include <unistd.h>

namespace sojourn::owner::test {

namespace {

void expectHas(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

} // namespace

TEST(Server, AnswersOverIpcAndCounts) {
  World world;
  TemporaryFolder folder;
  Owner owner(world.environment());
  std::string url = "ipc://" + folder.file("o.sock");
  auto server = Server::start(owner, {url, 2});
  ASSERT_TRUE(bool(server)) << llvm::toString(server.takeError());
  {
    Requester first(url), second(url);
    Reply hello = first.send(helloBytes("alice"));
    ASSERT_EQ(hello.kind(), wire::ReplyBody_Welcome);
    auto program = keepProgram();
    StepRequest step;
    step.session = hello.root->body_as_Welcome()->session();
    step.hash.assign(program.hash.begin(), program.hash.end());
    step.program = program.program;
    step.uploads = {f32({3}, {1, 2, 3})};
    step.results = {1};
    EXPECT_EQ(first.send(stepBytes(step)).error(), "");
    EXPECT_EQ(second.send("garbage").kind(), wire::ReplyBody_Error);
    // A client of a socket does not read the log of programs.
    EXPECT_EQ(second.send(listProgramsBytes(true)).asError().code(), wire::ErrorCode_Refused);
  }
  EXPECT_EQ((*server)->requests(), 4u);
  EXPECT_EQ(owner.requests(), 4u);
  EXPECT_EQ(owner.stepsHandled(), 1u);
}

TEST(Server, ConcurrentClients) {
  World world;
  Owner owner(world.environment());
  auto server = Server::start(owner, {"inproc://owner-test", 4});
  ASSERT_TRUE(bool(server)) << llvm::toString(server.takeError());
  std::vector<std::thread> threads;
  for (int index = 0; index < 4; ++index) {
    threads.emplace_back([] {
      Requester requester("inproc://owner-test");
      for (int round = 0; round < 50; ++round) {
        EXPECT_EQ(requester.send(helloBytes("x")).kind(), wire::ReplyBody_Welcome);
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  EXPECT_EQ((*server)->requests(), 200u);
  EXPECT_EQ(owner.liveSessions(), 200u);
}

TEST(Server, RequestsAreTakenWhileStepsRunAndStoppingFreesAll) {
  World world;
  std::mutex mutex;
  std::condition_variable changed;
  int busy = 0;
  bool open = false;
  Environment environment = world.environment();
  environment.entering = [&](Phase phase) {
    std::unique_lock lock(mutex);
    if (phase == Phase::running) {
      ++busy;
      changed.notify_all();
      changed.wait(lock, [&] { return open; });
    }
  };
  Owner owner(environment);
  // Some steps run, others wait for a place.
  unsigned held = std::max(2u, std::thread::hardware_concurrency()) + 1;
  const unsigned places = std::max(8u, 2 * testWorker().threads()) / 4; // of clients without an identity
  const int running = static_cast<int>(std::min(held, places));
  std::string url = "inproc://hand-over";
  auto server = Server::start(owner, {url, held + 2});
  ASSERT_TRUE(bool(server)) << llvm::toString(server.takeError());
  auto program = keepProgram();
  std::vector<std::thread> threads;
  for (unsigned index = 0; index < held; ++index) {
    threads.emplace_back([&] {
      Requester requester(url);
      StepRequest step;
      step.session = requester.send(helloBytes("held")).root->body_as_Welcome()->session();
      step.hash.assign(program.hash.begin(), program.hash.end());
      step.program = program.program;
      step.debug = program.debug;
      step.uploads = {f32({3}, {1, 2, 3})};
      step.results = {1};
      EXPECT_EQ(requester.send(stepBytes(step)).error(), "");
    });
  }
  {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return busy == running; }))
        << busy << " of " << running << " steps run at once";
  }
  EXPECT_EQ(Requester(url).send(helloBytes("late")).kind(), wire::ReplyBody_Welcome);
  {
    std::lock_guard lock(mutex);
    open = true;
  }
  changed.notify_all();
  for (std::thread &thread : threads) {
    thread.join();
  }
  (*server)->stop();
  // Resting, receiving and answering workers all end.
  for (int round = 0; round < 30; ++round) {
    auto again = Server::start(owner, {url, 16});
    ASSERT_TRUE(bool(again)) << llvm::toString(again.takeError());
    std::thread client([&] { Requester(url).send(helloBytes("brief")); });
    client.join();
    (*again)->stop();
  }
}

TEST(Server, BadAddressesSayWhatIsExpected) {
  World world;
  Owner owner(world.environment());
  for (const char *url : {"ipc:///proc/none/o.sock", "tls+tcp://256.0.0.1:9999"}) {
    auto server = Server::start(owner, {url});
    ASSERT_FALSE(bool(server)) << url;
    expectHas(llvm::toString(server.takeError()), std::string("cannot listen on '") + url);
  }
  for (const char *url : {"nonsense", "http://hospital.example"}) {
    auto server = Server::start(owner, {url});
    ASSERT_FALSE(bool(server)) << url;
    const std::string text = llvm::toString(server.takeError());
    expectHas(text, std::string("'") + url + "'");
    expectHas(text, "expected ipc:///path/to/socket or tls+tcp://host:port");
  }
  auto first = Server::start(owner, {"inproc://taken"});
  auto second = Server::start(owner, {"inproc://taken"});
  ASSERT_TRUE(bool(first) && !bool(second));
  expectHas(llvm::toString(second.takeError()), "another server already listens at this address");
}

TEST(Tool, ImportListServeAndPrograms) {
  TemporaryFolder folder;
  std::string store = " --store " + folder.file("store");
  std::string csv = folder.write("t.csv", "age,n\n20,1\n150,2\n");
  auto [help, helpCode] = tool("--help");
  EXPECT_EQ(helpCode, 0);
  expectHas(help, "import");
  EXPECT_EQ(tool("import --help").second, 0);
  EXPECT_EQ(tool("frobnicate").second, 2);
  EXPECT_EQ(tool("import " + csv).second, 2);
  EXPECT_EQ(tool("import " + csv + " --name t --policy secret").second, 2);
  auto [nowhereYet, nowhereYetCode] = tool("datasets" + store);
  EXPECT_EQ(nowhereYetCode, 1);
  expectHas(nowhereYet, "there is no store at '" + folder.file("store") + "'; name one with --store");
  EXPECT_FALSE(std::filesystem::exists(folder.file("store")));
  auto [missing, missingCode] = tool("import none.csv --name t --policy open" + store);
  EXPECT_EQ(missingCode, 1);
  expectHas(missing, "no such file");
  auto [import, importCode] = tool("import " + csv + " --name t --policy open --bound age=0:120" + store);
  EXPECT_EQ(importCode, 0) << import;
  expectHas(import, "t: 2 rows, 2 columns, policy open");
  EXPECT_EQ(tool("import " + csv + " --name t" + store).second, 1);
  auto [list, listCode] = tool("datasets" + store);
  EXPECT_EQ(listCode, 0);
  expectHas(list, "120");
  // Values that nobody has declared bounds of cannot be private, and somebody must be protected.
  auto [unbounded, unboundedCode] = tool("policy t private --rows-are-subjects" + store);
  EXPECT_EQ(unboundedCode, 1);
  expectHas(unbounded, "policy private needs bounds of every column, from public knowledge and not from the data; "
                       "1 of 2 have none: 'n'");
  EXPECT_EQ(tool("import " + csv + " --name u --policy open --bound age=0:120 --bound n=0:9" + store).second, 0);
  auto [nobody, nobodyCode] = tool("policy u private" + store);
  EXPECT_EQ(nobodyCode, 1);
  expectHas(nobody, "add --rows-are-subjects");
  expectHas(tool("datasets" + store).first, "u: 2 rows, 2 columns, policy open");
  auto [policy, policyCode] = tool("policy u private --rows-are-subjects" + store);
  EXPECT_EQ(policyCode, 0) << policy;
  expectHas(policy, "u: policy private");
  expectHas(tool("datasets" + store).first, "u: 2 rows, 2 columns, policy private");
  EXPECT_EQ(tool("policy u open --yes" + store).second, 0);
  expectHas(tool("datasets" + store).first, "u: 2 rows, 2 columns, policy open");
  EXPECT_EQ(tool("policy u private" + store).second, 0) << "who is protected was said before";
  EXPECT_EQ(tool("policy t secret" + store).second, 2);
  EXPECT_EQ(tool("policy t" + store).second, 2);
  auto [kept, keptCode] = tool("policy u open" + store);
  EXPECT_EQ(keptCode, 1) << "standard input is empty";
  expectHas(kept, "let clients with access publish values of table u without noise? [y/N]");
  expectHas(kept, "table 'u' is still private; answer y to open it, or add --yes");
  auto [nowhere, nowhereCode] = tool("policy nowhere open" + store);
  EXPECT_EQ(nowhereCode, 1);
  expectHas(nowhere, "no dataset is named 'nowhere'");
  expectHas(help, "policy");

  EXPECT_EQ(tool("serve --listen ipc://" + folder.file("x.sock") + " --max-operations many" + store).second, 2);

  // A server in a process of its own, with limits, ended by a signal.
  std::string url = "ipc://" + folder.file("o.sock"), path = folder.file("store");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ready[1], STDOUT_FILENO);
    close(ready[0]);
    close(ready[1]);
    execl(SOJOURN_OWNER_TOOL, SOJOURN_OWNER_TOOL, "serve", "--listen", url.c_str(), "--store", path.c_str(),
          "--max-operations", "5000", "--max-arena", "4000", static_cast<char *>(nullptr));
    _exit(127);
  }
  close(ready[1]);
  std::string output;
  std::array<char, 256> buffer;
  ssize_t size = 0;
  while (output.find('\n') == std::string::npos && (size = read(ready[0], buffer.data(), buffer.size())) > 0) {
    output.append(buffer.data(), static_cast<size_t>(size));
  }
  expectHas(output, "listening on " + url);
  auto program = keepProgram();
  {
    Requester requester(url);
    Reply hello = requester.send(helloBytes("alice"));
    StepRequest step;
    step.session = hello.root->body_as_Welcome()->session();
    step.hash.assign(program.hash.begin(), program.hash.end());
    step.program = program.program;
    step.debug = program.debug;
    step.uploads = {f32({3}, {1, 2, 3})};
    step.results = {1};
    EXPECT_EQ(requester.send(stepBytes(step)).error(), "");
    // Small values and many ops, then the reverse.
    for (auto [elements, ops, text] : {std::tuple{100, 60, "operations, expected at most 5000"},
                                       std::tuple{1200, 1, "bytes of arena, expected at most 4000"}}) {
      std::string type = "tensor<" + std::to_string(elements) + "xf32>", last = "%i";
      std::string body = "    %i = sojourn.iota dim = 0 : " + type + "\n";
      for (int op = 0; op < ops; ++op) {
        std::string name = "%v" + std::to_string(op);
        body += "    " + name + " = sojourn.cumsum " + last + ", dim = 0 : " + type + "\n";
        last = name;
      }
      auto dear = encode(
          moduleText("() -> (" + type + " {sojourn.result = \"keep\"})", body + "    return " + last + " : " + type));
      StepRequest refused;
      refused.session = step.session;
      refused.sequence = 2;
      refused.hash.assign(dear.hash.begin(), dear.hash.end());
      refused.program = dear.program;
      refused.debug = dear.debug;
      refused.results = {2};
      std::string error = requester.send(stepBytes(refused)).error();
      expectHas(error, "Limit: ");
      expectHas(error, text);
    }
  }
  kill(child, SIGTERM);
  int state = 0;
  waitpid(child, &state, 0);
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0);
  while ((size = read(ready[0], buffer.data(), buffer.size())) > 0) {
    output.append(buffer.data(), static_cast<size_t>(size));
  }
  close(ready[0]);
  expectHas(output, "closed after 4 requests and 1 steps");

  auto [programs, programsCode] = tool("programs" + store);
  EXPECT_EQ(programsCode, 0);
  std::string hash = runtime::toHex(program.hash);
  expectHas(programs, hash.substr(0, 16));
  expectHas(programs, "alice");
  auto [text, textCode] = tool("programs --text " + hash.substr(0, 8) + store);
  EXPECT_EQ(textCode, 0);
  expectHas(text, "func.func @step");
  EXPECT_EQ(tool("programs --text 00zz" + store).second, 1);
}

} // namespace sojourn::owner::test
