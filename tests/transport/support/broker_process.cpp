#include "transport/support/broker_process.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

sockaddr_in loopback_port(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

[[noreturn]] void become(const BrokerProcess::Command& command, const std::string& output) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it does not outlive a test that crashes
  const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  for (const auto& [name, value] : command.environment) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  std::vector<char*> argv;
  for (const auto& word : command.words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

}  // namespace

int free_port() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto address = loopback_port(0);
  socklen_t length = sizeof address;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw std::runtime_error("no free port");
  }
  ::close(listener);
  return ntohs(address.sin_port);
}

bool is_listening(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto address = loopback_port(port);
  const bool connected =
      ::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(socket);
  return connected;
}

std::string BrokerProcess::output() const {
  std::ifstream in{folder() / "output"};
  return {std::istreambuf_iterator<char>{in}, {}};
}

void BrokerProcess::start(const Command& command, int port) {
  const auto file = (folder() / "output").string();
  process_ = std::make_unique<ChildProcess>([&] { become(command, file); });
  const bool started = eventually([&] { return is_listening(port) || process_->has_ended(); },
                                  std::chrono::seconds{60});
  if (!started || process_->has_ended()) {
    throw std::runtime_error("the broker did not start: " + output());
  }
}

void BrokerProcess::kill() {
  process_.reset();
}

}  // namespace dovetail::testing
