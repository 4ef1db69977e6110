#include "cli/http_get.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string_view>

namespace dovetail::cli {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::size_t largest_answer = std::size_t{16} << 20;
constexpr std::string_view scheme = "http://";

struct Target {
  std::string host;
  std::string port = "80";
  std::string path;  // without a slash at its end
};

[[noreturn]] void refuse(const std::string& url, const std::string& why) {
  throw std::invalid_argument("--url must be http://host[:port][/path], got \"" + url +
                              "\": " + why);
}

/// `localhost:8420`, `[::1]:8420`
void set_authority(Target& target, std::string_view authority, const std::string& url) {
  const auto bracket = authority.starts_with('[') ? authority.find(']') : std::string_view::npos;
  if (authority.find('@') != std::string_view::npos) refuse(url, "it must not contain a user");
  const auto colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos) target.port = authority.substr(colon + 1);
  target.host = authority.substr(0, colon);
  if (bracket != std::string_view::npos) target.host = authority.substr(1, bracket - 1);
  if (target.host.empty()) refuse(url, "it has no host");
  const bool digits = std::ranges::all_of(target.port, [](char c) { return c >= '0' && c <= '9'; });
  if (target.port.empty() || target.port.size() > 5 || !digits) refuse(url, "the port is wrong");
}

Target parsed(const std::string& url) {
  std::string_view rest = url;
  if (rest.starts_with("https://")) {
    refuse(url, "this command asks over plain HTTP; for TLS use curl --fail");
  }
  if (!rest.starts_with(scheme)) refuse(url, "it does not begin with http://");
  rest.remove_prefix(scheme.size());
  const bool is_plain = std::ranges::all_of(rest, [](char c) { return c > ' ' && c < 0x7F; });
  if (!is_plain) refuse(url, "it contains a space or another character that a URL has not");
  Target target;
  const auto slash = rest.find('/');
  if (slash != std::string_view::npos) target.path = rest.substr(slash);
  while (target.path.ends_with('/')) target.path.pop_back();
  set_authority(target, rest.substr(0, slash), url);
  return target;
}

/// A socket with a deadline for all that it does.
class Socket {
 public:
  Socket(const addrinfo& address, Steady::time_point deadline)
      : socket_(::socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                         address.ai_protocol)),
        deadline_(deadline) {
    if (socket_ < 0) fail("socket");
    if (::connect(socket_, address.ai_addr, address.ai_addrlen) == 0) return;
    if (errno != EINPROGRESS) close_and_fail("connect");
    try {
      wait_for(POLLOUT);
    } catch (...) {
      ::close(socket_);
      throw;
    }
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size);
    errno = error;
    if (error != 0) close_and_fail("connect");
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { ::close(socket_); }

  void send(std::string_view text) {
    while (!text.empty()) {
      wait_for(POLLOUT);
      const auto sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) fail("send");
      if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  /// Up to the end of the connection.
  std::string receive() {
    std::string text;
    char buffer[8192];
    for (;;) {
      wait_for(POLLIN);
      const auto got = ::recv(socket_, buffer, sizeof buffer, 0);
      if (got == 0) return text;
      if (got < 0 && errno != EAGAIN && errno != EINTR) fail("receive");
      if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
      if (text.size() > largest_answer) throw std::runtime_error("the answer is too long");
    }
  }

 private:
  [[noreturn]] static void fail(const char* what) {
    throw std::runtime_error(std::string{what} + ": " + std::strerror(errno));
  }
  [[noreturn]] void close_and_fail(const char* what) {
    const int error = errno;
    ::close(socket_);
    errno = error;
    fail(what);
  }
  void wait_for(short events) const {
    for (;;) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Steady::now()).count();
      if (left <= 0) throw std::runtime_error("no answer in time");
      pollfd entry{.fd = socket_, .events = events, .revents = 0};
      const int ready = ::poll(&entry, 1, static_cast<int>(left));
      if (ready > 0) return;
      if (ready < 0 && errno != EINTR) fail("poll");
    }
  }

  const int socket_;
  const Steady::time_point deadline_;
};

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses resolved(const Target& target) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(target.host.c_str(), target.port.c_str(), &hints, &found);
  if (error != 0) {
    throw std::runtime_error("cannot resolve " + target.host + ": " + ::gai_strerror(error));
  }
  return {found, &::freeaddrinfo};
}

HttpAnswer answer_of(const std::string& text) {
  HttpAnswer answer;
  const auto space = text.find(' ');
  const auto end = text.find("\r\n\r\n");
  const auto* const begin = text.data() + space + 1;
  if (!text.starts_with("HTTP/1.") || end == std::string::npos || space > end ||
      std::from_chars(begin, text.data() + end, answer.status).ec != std::errc{}) {
    throw std::runtime_error("the answer is not HTTP");
  }
  answer.body = text.substr(end + 4);
  return answer;
}

/// HTTP/1.0: the answer ends with the connection, and is never chunked.
std::string text_of(const Target& target, const HttpRequest& request) {
  const bool is_v6 = target.host.find(':') != std::string::npos;
  std::string text = "GET " + target.path + request.path +
                     " HTTP/1.0\r\nHost: " + (is_v6 ? "[" + target.host + "]" : target.host) + ":" +
                     target.port + "\r\nAccept: application/json\r\n";
  if (!request.bearer_token.empty()) {
    text += "Authorization: Bearer " + request.bearer_token + "\r\n";
  }
  return text + "\r\n";
}

}  // namespace

HttpAnswer http_get(const HttpRequest& request) {
  const auto target = parsed(request.url);
  const auto deadline = Steady::now() + request.limit;
  const auto addresses = resolved(target);
  std::string reason;
  for (const auto* each = addresses.get(); each != nullptr; each = each->ai_next) {
    try {
      Socket socket(*each, deadline);
      socket.send(text_of(target, request));
      return answer_of(socket.receive());
    } catch (const std::runtime_error& error) {
      reason = error.what();
    }
  }
  throw std::runtime_error(reason);
}

}  // namespace dovetail::cli
