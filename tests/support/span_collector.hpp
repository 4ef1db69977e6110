// A receiver of spans (OTLP over HTTP) for tests.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace dovetail::testing {

/// Accepts one request at a time, on a free port of the loopback interface.
class SpanCollector {
 public:
  explicit SpanCollector(std::string answer = "200 OK") : answer_(std::move(answer)) {
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket_, generic, size) != 0 || ::listen(socket_, 8) != 0 ||
        ::getsockname(socket_, generic, &size) != 0) {
      throw std::runtime_error("the collector cannot listen");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this] { serve(); });
  }
  SpanCollector(const SpanCollector&) = delete;
  SpanCollector& operator=(const SpanCollector&) = delete;
  ~SpanCollector() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }

  [[nodiscard]] std::string url() const {
    return "http://127.0.0.1:" + std::to_string(port_) + "/v1/traces";
  }
  [[nodiscard]] std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  /// The spans of all requests.
  [[nodiscard]] std::vector<nlohmann::json> spans() const {
    std::vector<nlohmann::json> all;
    for (const auto& request : requests()) {
      const auto body = nlohmann::json::parse(request.substr(request.find("\r\n\r\n") + 4));
      for (const auto& span : body.at("resourceSpans").at(0).at("scopeSpans").at(0).at("spans")) {
        all.push_back(span);
      }
    }
    return all;
  }

 private:
  void serve() {
    for (;;) {
      const int client = ::accept(socket_, nullptr, nullptr);
      if (client < 0) return;
      while (const auto request = read_request(client)) {
        {
          const std::lock_guard lock(mutex_);
          requests_.push_back(*request);
        }
        const auto reply = "HTTP/1.1 " + answer_ + "\r\nContent-Length: 2\r\n\r\n{}";
        if (::send(client, reply.data(), reply.size(), MSG_NOSIGNAL) < 0) break;
      }
      ::close(client);
    }
  }
  static std::optional<std::string> read_request(int client) {
    std::string text;
    std::array<char, 4096> buffer{};
    for (;;) {
      const auto end = text.find("\r\n\r\n");
      const auto length = text.find("Content-Length: ");
      if (end != text.npos && length != text.npos &&
          text.size() >= end + 4 + std::stoul(text.substr(length + 16))) {
        return text;
      }
      const auto count = ::recv(client, buffer.data(), buffer.size(), 0);
      if (count <= 0) return std::nullopt;
      text.append(buffer.data(), static_cast<std::size_t>(count));
      if (end != text.npos && text.find("Expect: 100-continue") < end) {
        const std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
        ::send(client, go_on.data(), go_on.size(), MSG_NOSIGNAL);
      }
    }
  }

  const std::string answer_;
  int socket_ = -1;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::jthread thread_;
};

}  // namespace dovetail::testing
