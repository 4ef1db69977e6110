// A server on loopback that answers each PostgreSQL startup packet with an error.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

namespace dovetail::testing {

class RefusingServer {
 public:
  RefusingServer(std::string sqlstate, std::string message)
      : sqlstate_(std::move(sqlstate)), message_(std::move(message)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      throw std::runtime_error("the server cannot listen");
    }
    url_ =
        "postgresql://someone@127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/database";
    acceptor_ = std::jthread([this](const std::stop_token& stop) { accept_until(stop); });
  }
  ~RefusingServer() {
    acceptor_ = {};
    ::close(listener_);
  }
  RefusingServer(const RefusingServer&) = delete;
  RefusingServer& operator=(const RefusingServer&) = delete;

  [[nodiscard]] const std::string& url() const { return url_; }
  /// The number of refused startup packets.
  [[nodiscard]] int refusals() const { return refusals_; }

 private:
  void accept_until(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pollfd fd{listener_, POLLIN, 0};
      if (::poll(&fd, 1, 20) <= 0) continue;
      const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) continue;
      answer(client);
      ::close(client);
    }
  }

  void answer(int client) {
    constexpr std::uint32_t ssl_request = 80877103;
    constexpr std::uint32_t gss_request = 80877104;
    std::array<char, 4096> packet{};
    while (::recv(client, packet.data(), packet.size(), 0) >= 8) {
      std::uint32_t code = 0;
      std::memcpy(&code, packet.data() + 4, sizeof code);
      code = ntohl(code);
      if (code == ssl_request || code == gss_request) {
        ::send(client, "N", 1, MSG_NOSIGNAL);
        continue;
      }
      refuse(client);
      return;
    }
  }

  void refuse(int client) {
    ++refusals_;
    std::string fields = "SFATAL";
    fields += '\0';
    fields += "C" + sqlstate_ + '\0';
    fields += "M" + message_ + '\0';
    fields += '\0';
    const auto length = htonl(static_cast<std::uint32_t>(fields.size() + sizeof(std::uint32_t)));
    std::string reply = "E";
    reply.append(reinterpret_cast<const char*>(&length), sizeof length);
    reply += fields;
    ::send(client, reply.data(), reply.size(), MSG_NOSIGNAL);
  }

  std::string sqlstate_;
  std::string message_;
  std::string url_;
  int listener_ = -1;
  std::atomic<int> refusals_{0};
  std::jthread acceptor_;
};

}  // namespace dovetail::testing
