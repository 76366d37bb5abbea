// SPDX-License-Identifier: Apache-2.0
// Settings of a server from a file: each key, and each mistake with its line.
#include "owner/ServeSettings.h"

#include "test/owner/Support.h"

#include <cmath>
#include <random>
#include <thread>

namespace sojourn::owner::test {

namespace {

struct Settings : testing::Test {
  TemporaryFolder folder;
  ServeSettings settings;
  std::string read(const std::string &text) {
    return errorText(readSettings(folder.write("owner.toml", text), settings));
  }
  /// The error without the file's name.
  std::string mistake(const std::string &text) {
    const std::string told = read(text), name = "'" + folder.file("owner.toml") + "', ";
    EXPECT_TRUE(told.starts_with(name)) << told;
    return told.substr(std::min(name.size(), told.size()));
  }
};

} // namespace

TEST_F(Settings, EveryKeyIsTakenOver) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 dice(seed);
  std::string text = "listen = \"ipc:///run/o.sock\"\nmetrics = \"127.0.0.1:9464\"\nlog = \"json\"\nplain_tcp = true\n",
              table;
  std::vector<double> expected;
  for (const bool isTop : {true, false}) { // keys before tables
    for (const NumberSetting &setting : numberSettings()) {
      if (std::string(setting.table).empty() != isTop) {
        continue;
      }
      if (table != setting.table) {
        table = setting.table;
        text += "[" + table + "]\n";
      }
      const double most = std::min(setting.most, 1e6);
      const double value =
          std::ceil(setting.least + static_cast<double>(dice() % 1000) / 1000 * (most - setting.least));
      expected.push_back(value);
      text += std::string(setting.key) + " = " + std::to_string(static_cast<int64_t>(value)) + "\n";
    }
  }
  ASSERT_EQ(read(text), "");
  size_t at = 0;
  for (const bool isTop : {true, false}) {
    for (const NumberSetting &setting : numberSettings()) {
      if (std::string(setting.table).empty() == isTop) {
        EXPECT_EQ(setting.get(settings), expected[at++]) << setting.table << "." << setting.key;
      }
    }
  }
  EXPECT_EQ(settings.listen, "ipc:///run/o.sock");
  EXPECT_EQ(settings.metrics, "127.0.0.1:9464");
  EXPECT_EQ(settings.log, "json");
  EXPECT_TRUE(settings.plainTcp);
  EXPECT_EQ(errorText(checkSettings(settings)), "");
}

TEST_F(Settings, FractionsAndUnderscores) {
  ASSERT_EQ(read("drain_seconds = 1.5\n[steps]\nseconds = 0.25\n[values]\nbytes = 1_000_000\n"), "");
  EXPECT_EQ(settings.drainSeconds, 1.5);
  EXPECT_EQ(settings.limits.stepMs, 250);
  EXPECT_EQ(settings.limits.handleBytes, 1'000'000u);
}

TEST_F(Settings, MistakesNameTheirLine) {
  EXPECT_EQ(mistake("\n\n[steps]\nsecnds = 3\n"),
            "line 4: unknown key 'secnds' in [steps], expected one of seconds, operations, call_seconds, "
            "arena_bytes, all_arena_bytes, threads");
  EXPECT_EQ(
      mistake("port = 3\n"),
      "line 1: unknown key 'port', expected one of drain_seconds, listen, peers, metrics, log, plain_tcp, or a table");
  EXPECT_EQ(mistake("[steps]\nseconds = \"ten\"\n"),
            "line 2: 'steps.seconds' is 'ten', expected a number from 0 to 604800: deadline of one step; 0: none");
  EXPECT_EQ(mistake("[steps]\nseconds = -1\n").substr(0, 31), "line 2: 'steps.seconds' is -1, ");
  EXPECT_EQ(mistake("[steps]\nseconds = nan\n").substr(0, 32), "line 2: 'steps.seconds' is nan, ");
  EXPECT_EQ(mistake("[requests]\nat_once = 2.5\n").substr(0, 59),
            "line 2: 'requests.at_once' is 2.5, expected a whole number ");
  EXPECT_EQ(mistake("[requests]\nat_once = 1e30\n").substr(0, 8), "line 2: ");
  EXPECT_EQ(mistake("steps = 3\n"), "line 1: 'steps' is 3, expected a table: [steps]");
  EXPECT_EQ(mistake("listen = 3\n"),
            "line 1: 'listen' is 3, expected a text: ipc:///path/to.sock or tls+tcp://host:port");
  for (const char *wrong : {"1", "\"yes\"", "[true]"}) {
    EXPECT_EQ(mistake(std::string("plain_tcp = ") + wrong + "\n").find("line 1: 'plain_tcp' is "), 0u) << wrong;
    EXPECT_NE(mistake(std::string("plain_tcp = ") + wrong + "\n").find(", expected true or false: "),
              std::string::npos);
    EXPECT_FALSE(settings.plainTcp);
  }
  ASSERT_EQ(read("plain_tcp = true\n"), "");
  EXPECT_TRUE(settings.plainTcp);
  ASSERT_EQ(read("plain_tcp = false\n"), "");
  EXPECT_FALSE(settings.plainTcp);
  EXPECT_NE(read("a = = 3\n").find("', line 1: "), std::string::npos);
  // Where asserts or sanitizers are on, the reader's own used to end the process.
  EXPECT_NE(read("a = 2021-01-01T:00\n").find("', line 1: "), std::string::npos);
  EXPECT_NE(read("a = 0\u0444\n").find("', line 1: "), std::string::npos);
  EXPECT_NE(errorText(readSettings(folder.file("none.toml"), settings)).find("cannot read"), std::string::npos);
}

TEST_F(Settings, TextsAreChecked) {
  EXPECT_NE(errorText(checkSettings(settings)).find("no address to listen on"), std::string::npos);
  settings.listen = "ipc:///run/o.sock";
  for (const char *wrong : {"9464", "host:", ":9464", "host:0", "host:65536", "host:x"}) {
    settings.metrics = wrong;
    EXPECT_NE(errorText(checkSettings(settings)).find("expected host:port"), std::string::npos) << wrong;
  }
  settings.metrics = "[::1]:9464";
  EXPECT_EQ(errorText(checkSettings(settings)), "");
  settings.log = "xml";
  EXPECT_EQ(errorText(checkSettings(settings)), "the form of the log is 'xml', expected text or json");
}

TEST_F(Settings, PlainTcpStaysOnThisMachine) {
  auto problem = [&](const std::string &address, bool plainTcp) {
    settings.listen = address;
    settings.plainTcp = plainTcp;
    return errorText(checkSettings(settings));
  };
  for (const char *place : {"127.0.0.1:7000", "127.9.250.3:7000", "localhost:7000", "[::1]:7000"}) {
    const std::string address = std::string("tcp://") + place;
    EXPECT_EQ(problem(address, true), "");
    EXPECT_EQ(problem(address, false), "'" + address + "' is not encrypted; expected tls+" + address +
                                           " (or, for tests on one machine, " + address + " with --plain-tcp)");
    EXPECT_EQ(problem("tls+" + address, false), "");
  }
  for (const char *place : {"10.0.0.5:7000", "0.0.0.0:7000", "*:7000", ":7000", "[::]:7000", "128.0.0.1:7000",
                            "127.0.0.1.example.org:7000", "127.0.0:7000", "127.1:7000", "127.0.0.0.1:7000",
                            "127.0.0.256:7000", "0127.0.0.1:7000", "127.0.0.1;10.0.0.5:7000", "lo;10.0.0.5:7000",
                            "localhost.example.org:7000", "127..0.1:7000", "127.0.0.:7000", "2130706433:7000"}) {
    const std::string address = std::string("tcp://") + place;
    for (bool plainTcp : {false, true}) {
      EXPECT_EQ(problem(address, plainTcp),
                "'" + address + "' is not encrypted; expected tls+" + address +
                    " (or, for tests on one machine, tcp://127.0.0.1:PORT with --plain-tcp)");
    }
    EXPECT_EQ(problem("tls+" + address, false), "");
  }
  for (const char *address :
       {"tls+tcp://127.0.0.1", "tls+tcp://127.0.0.1:0", "tls+tcp://:", "tls+tcp://a:65536", "tls+tcp://a:7x"}) {
    EXPECT_NE(problem(address, true).find("with a port from 1 to 65535; expected tls+tcp://host:port"),
              std::string::npos)
        << address;
  }
  EXPECT_EQ(problem("tls+tcp://[::1]:7443", false), "");
  for (const char *address : {"nonsense", "", "://x", "http://127.0.0.1:1", "tcp4://127.0.0.1:1", "ws://127.0.0.1:1",
                              "tls+tcp4://10.0.0.5:1", "TCP://127.0.0.1:1", "abstract://x"}) {
    EXPECT_NE(problem(address, true).find("expected "), std::string::npos) << address;
    EXPECT_NE(problem(address, true).find("ipc:///path/to"), std::string::npos) << address;
  }
}

TEST_F(Settings, OperationsFollowTheMachineAndTheDeadline) {
  settings.limits.threads = 4;
  settings.limits.stepMs = 10'000;
  settings.settle(7);
  EXPECT_EQ(settings.limits.price.operations, 400'000'000'000u);
  settings.limits.stepMs = 0;
  settings.settle(7);
  EXPECT_EQ(settings.limits.price.operations, PriceLimits().operations);
  settings.operations = 5000;
  settings.settle(7);
  EXPECT_EQ(settings.limits.price.operations, 5000u);
  EXPECT_EQ(settings.limits.threads, 4u);
  ServeSettings plain;
  plain.settle(7);
  EXPECT_EQ(plain.limits.threads, 7u) << "the machine's";
}

} // namespace sojourn::owner::test
