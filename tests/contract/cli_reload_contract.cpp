// SIGHUP of the commands that run until they are stopped.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "support/cli_test.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

class CliReloadContract : public CliTest {
 protected:
  void write_configuration(const std::string& more) const {
    std::ofstream{file} << "[database]\nurl = \"" << backend.url() << "\"\nschema = \""
                        << backend.schema() << "\"\n"
                        << more;
  }
  /// Starts the command. Its messages go into a file.
  [[nodiscard]] ChildProcess start(Words arguments) const {
    arguments.insert(arguments.begin(), command_path);
    return ChildProcess([arguments, path = messages_path] {
      ::signal(SIGHUP, SIG_DFL);  // the test may run under nohup
      const int target = ::open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
      ::dup2(target, STDERR_FILENO);
      std::vector<char*> argv;
      for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    });
  }
  [[nodiscard]] bool says(const std::string& text) const {
    return eventually([&] {
      std::ifstream in{messages_path};
      const std::string messages{std::istreambuf_iterator<char>{in}, {}};
      return messages.find(text) != std::string::npos;
    });
  }

  const std::string file = (directory.path() / "dovetail.toml").string();
  const std::string messages_path = (directory.path() / "messages").string();
};
DOVETAIL_CONTRACT(CliReloadContract);

TEST_P(CliReloadContract, SighupReadsTheFileAgainAndABadFileChangesNothing) {
  dovetail({"migrate"});
  for (const auto& command :
       std::vector<Words>{{"schedule"}, {"work", "--exec", "true"}, {"server", "--port", "0"}}) {
    ::unlink(messages_path.c_str());
    write_configuration("[log]\nlevel = \"error\"\n");
    auto words = command;
    words.insert(words.end(), {"--config", file});
    auto process = start(words);
    ASSERT_TRUE(says("dovetail: ")) << command[0];
    write_configuration("[log]\nlevle = \"info\"\n");
    process.signal(SIGHUP);
    EXPECT_TRUE(says("did you mean level?")) << command[0];
    EXPECT_TRUE(says("config.reload_failed"));
    write_configuration("[log]\nlevel = \"info\"\n[worker]\nfetchers = 3\n");
    process.signal(SIGHUP);
    EXPECT_TRUE(says("config.restart_needed setting=worker.fetchers")) << command[0];
    EXPECT_TRUE(says("config.reloaded"));
    process.signal(SIGTERM);
    EXPECT_EQ(process.wait(), 0) << command[0];
  }
}

TEST_P(CliReloadContract, WithoutAFileSighupEndsAWorker) {
  dovetail({"migrate"});
  for (const auto& command : std::vector<Words>{{"schedule"}, {"work", "--exec", "true"}}) {
    ::unlink(messages_path.c_str());
    auto words = command;
    words.insert(words.end(), {"--database", backend.url(), "--schema", backend.schema()});
    auto process = start(words);
    ASSERT_TRUE(says("dovetail: ")) << command[0];
    process.signal(SIGHUP);
    EXPECT_EQ(process.wait(), 0) << command[0];
  }
}

}  // namespace
}  // namespace dovetail::testing
