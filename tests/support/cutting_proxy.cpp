#include "support/cutting_proxy.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string_view>

namespace dovetail::testing {
namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool send_all(int socket, const char* data, std::size_t size) {
  while (size > 0) {
    const auto sent = ::send(socket, data, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

}  // namespace

CuttingProxy::CuttingProxy(const std::string& url) {
  const auto colon = url.rfind(':');
  const auto slash = url.find('/', colon);
  server_port_ = url.substr(colon + 1, slash - colon - 1);
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto address = loopback(0);
  socklen_t length = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw std::runtime_error("the proxy cannot listen");
  }
  url_ = url.substr(0, colon + 1) + std::to_string(ntohs(address.sin_port)) + url.substr(slash);
  acceptor_ = std::jthread([this] { accept_loop(); });
}

CuttingProxy::~CuttingProxy() {
  stopping_ = true;
  acceptor_.join();
  connections_.clear();
  ::close(listener_);
}

void CuttingProxy::cut_answer_to(const std::string& text) {
  std::lock_guard lock(mutex_);
  armed_ = text;
}

bool CuttingProxy::takes_the_cut(const std::string& sent) {
  std::lock_guard lock(mutex_);
  if (armed_.empty() || sent.find(armed_) == std::string::npos) return false;
  armed_.clear();
  return true;
}

void CuttingProxy::accept_loop() {
  while (!stopping_) {
    pollfd fd{listener_, POLLIN, 0};
    if (::poll(&fd, 1, 20) <= 0) continue;
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client >= 0) connections_.emplace_back([this, client] { serve(client); });
  }
}

void CuttingProxy::serve(int client) {
  const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto address = loopback(std::stoi(server_port_));
  bool open = ::connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  bool cut = false;
  int last_side = 1;
  std::array<char, 65536> buffer{};
  while (open && !stopping_) {
    if (frozen_) {
      std::array<pollfd, 2> held{{{client, POLLIN, 0}, {server, POLLIN, 0}}};
      if (::poll(held.data(), held.size(), 0) > 0) holds_back_ = true;
      ::usleep(5'000);
      continue;
    }
    std::array<pollfd, 2> fds{{{client, POLLIN, 0}, {server, POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), 20) <= 0) continue;
    for (int side = 0; side < 2 && open; ++side) {
      if (fds[side].revents == 0) continue;
      const auto got = ::recv(fds[side].fd, buffer.data(), buffer.size(), 0);
      if (side == 0 && got > 0 && last_side == 1 &&
          std::string_view(buffer.data(), static_cast<std::size_t>(got)).find("pg_notify") ==
              std::string_view::npos) {
        ++round_trips_;
      }
      last_side = side;
      if (side == 1 && got > 0 && cut) {
        ++cuts_;  // the server has answered: the statement took effect, but the client gets no
                  // answer
        open = false;
        continue;
      }
      open = got > 0 && send_all(fds[1 - side].fd, buffer.data(), static_cast<std::size_t>(got));
      if (open && side == 0)
        cut = cut || takes_the_cut({buffer.data(), static_cast<std::size_t>(got)});
    }
  }
  ::close(server);
  ::close(client);
}

}  // namespace dovetail::testing
