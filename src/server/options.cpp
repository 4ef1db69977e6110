#include "server/options.hpp"

#include <stdexcept>

#include "server/http/http_server.hpp"

namespace dovetail {

std::string_view to_string(ServerRole role) {
  switch (role) {
    case ServerRole::viewer:
      return "viewer";
    case ServerRole::operator_:
      return "operator";
    case ServerRole::admin:
      return "admin";
  }
  return "unknown";
}

namespace server {
namespace {

template <class Number>
void require_between(const char* what, Number value, Number least, Number most) {
  if (value >= least && value <= most) return;
  throw std::out_of_range(std::string{what} + " must be " + std::to_string(least) + " to " +
                          std::to_string(most) + ", got " + std::to_string(value));
}

void require_time_limit(const char* what, std::chrono::milliseconds value) {
  constexpr std::chrono::milliseconds least{10};
  constexpr std::chrono::milliseconds most = std::chrono::hours{1};
  if (value >= least && value <= most) return;
  throw std::out_of_range(std::string{what} + " must be 10 ms to 1 h, got " +
                          std::to_string(value.count()) + " ms");
}

void require_address(const std::string& address) {
  if (!http::is_ip_address(address)) {
    throw std::invalid_argument("server address must be an IP address such as 127.0.0.1, got \"" +
                                address + "\"");
  }
  if (!http::is_loopback(address)) {
    throw std::invalid_argument("server address " + address +
                                " is not of the loopback interface, and the server has no "
                                "authentication: use 127.0.0.1 or ::1");
  }
}

void require_limits(const ServerLimits& limits) {
  constexpr std::size_t kib = 1 << 10;
  constexpr std::size_t most = 100'000;
  require_between<std::size_t>("max_header_bytes", limits.max_header_bytes, kib, kib * kib);
  require_between<std::size_t>("max_body_bytes", limits.max_body_bytes, kib, 64 * kib * kib);
  require_between<std::size_t>("max_bodies", limits.max_bodies, 1, 10'000);
  require_between<std::size_t>("max_connections", limits.max_connections, 10, most);
  require_between<std::size_t>("max_connections_per_address", limits.max_connections_per_address, 1,
                               most);
  require_between<std::size_t>("max_waiting_requests", limits.max_waiting_requests, 1, most);
  require_time_limit("header_timeout", limits.header_timeout);
  require_time_limit("body_timeout", limits.body_timeout);
  require_time_limit("reply_timeout", limits.reply_timeout);
  require_time_limit("write_timeout", limits.write_timeout);
  require_time_limit("idle_timeout", limits.idle_timeout);
}

}  // namespace

void require_valid(const ServerOptions& options) {
  require_address(options.address);
  require_between("server threads", options.threads, 1, 64);
  require_limits(options.limits);
}

}  // namespace server
}  // namespace dovetail
