#include "postgres/host_lookup.hpp"

#include <arpa/inet.h>
#include <netdb.h>

#include <array>
#include <future>
#include <string_view>
#include <system_error>
#include <thread>

#include "postgres/connection.hpp"

namespace dovetail::postgres {
namespace {

constexpr std::chrono::milliseconds stop_check_interval{20};

/// True for an address, and for the directory of a Unix socket.
bool needs_no_lookup(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return host.empty() || host.front() == '/' || host.front() == '@' ||
         ::inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

int address_info(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (code == 0) ::freeaddrinfo(found);
  return code;
}

/// getaddrinfo() cannot be interrupted. It runs on a thread of its own, and the caller waits for it
/// until `give_up_at`.
std::optional<LookupFailure> look_up(const std::string& host,
                                     std::chrono::steady_clock::time_point give_up_at,
                                     const std::stop_token& stop) {
  std::promise<int> promise;
  auto answer = promise.get_future();
  try {
    std::thread([host, promise = std::move(promise)]() mutable {
      promise.set_value(address_info(host));
    }).detach();
  } catch (const std::system_error&) {
    return std::nullopt;  // no thread is available: libpq looks the name up, without a time limit
  }
  while (answer.wait_for(stop_check_interval) != std::future_status::ready) {
    if (stop.stop_requested()) return std::nullopt;
    if (std::chrono::steady_clock::now() >= give_up_at) {
      return LookupFailure{"cannot resolve host name \"" + host +
                           "\": the name service did not answer"};
    }
  }
  const int code = answer.get();
  if (code == 0) return std::nullopt;
  return LookupFailure{"cannot resolve host name \"" + host + "\": " + ::gai_strerror(code),
                       code == EAI_NONAME || code == EAI_NODATA};
}

}  // namespace

std::optional<LookupFailure> look_up_hosts(const ConnectionSettings& settings,
                                           std::chrono::steady_clock::time_point give_up_at,
                                           const std::stop_token& stop) {
  if (!settings.get("hostaddr").empty()) return std::nullopt;
  std::optional<LookupFailure> last;
  auto rest = settings.get("host");
  for (bool more = true; more;) {
    const auto comma = rest.find(',');
    more = comma != std::string_view::npos;
    const std::string host{rest.substr(0, comma)};
    if (more) rest.remove_prefix(comma + 1);
    if (needs_no_lookup(host)) return std::nullopt;
    auto failure = look_up(host, give_up_at, stop);
    if (!failure) return std::nullopt;
    if (last && !last->name_is_unknown) failure->name_is_unknown = false;
    last = std::move(failure);
  }
  return last;
}

}  // namespace dovetail::postgres
