// A server that does not answer, for measures of isolation.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "dovetail/discovery.hpp"

namespace dovetail::cli::bench {

/// A server that accepts connections and never answers.
class SilentServer {
 public:
  SilentServer() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket_, any, size) != 0 || ::listen(socket_, 1'000) != 0 ||
        ::getsockname(socket_, any, &size) != 0) {
      throw std::runtime_error("cannot listen on a port of the loopback interface");
    }
    url_ = "postgresql://nobody@127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/nothing";
  }
  SilentServer(const SilentServer&) = delete;
  SilentServer& operator=(const SilentServer&) = delete;
  ~SilentServer() { ::close(socket_); }
  [[nodiscard]] std::vector<DatabaseEntry> databases(std::size_t count) const {
    std::vector<DatabaseEntry> entries;
    for (std::size_t i = 0; i < count; ++i) {
      entries.push_back({"silent " + std::to_string(i), url_, {}});
    }
    return entries;
  }

 private:
  int socket_;
  std::string url_;
};

}  // namespace dovetail::cli::bench
