// A broker that a test starts, kills and starts again, on a free port of loopback and in a
// temporary folder.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/backend.hpp"
#include "support/process.hpp"

namespace dovetail::testing {

/// A port of loopback that nobody listens to.
int free_port();
/// Returns whether somebody listens to the port of loopback.
bool is_listening(int port);

class BrokerProcess {
 public:
  struct Command {
    std::vector<std::string> words{};
    std::map<std::string, std::string> environment{};
  };

  BrokerProcess() = default;
  ~BrokerProcess() { kill(); }
  BrokerProcess(const BrokerProcess&) = delete;
  BrokerProcess& operator=(const BrokerProcess&) = delete;

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  /// Its output so far.
  [[nodiscard]] std::string output() const;

  /// Starts the command with its output in a file, and waits until it listens to the port.
  void start(const Command& command, int port);
  /// Ends it with SIGKILL. Does nothing if it does not run.
  void kill();

 private:
  TemporaryDirectory folder_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace dovetail::testing
