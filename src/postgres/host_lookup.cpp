#include "postgres/host_lookup.hpp"

#include <arpa/inet.h>
#include <netdb.h>

#include <array>
#include <future>
#include <memory>
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

using Resolve = std::function<Addresses(const std::string& host)>;

/// getaddrinfo() cannot be interrupted. It runs on a thread of its own, and the caller waits for it
/// until `give_up_at`.
HostLookup look_up(const std::string& host, std::chrono::steady_clock::time_point give_up_at,
                   const std::stop_token& stop, const Resolve& resolve) {
  std::promise<Addresses> promise;
  auto answer = promise.get_future();
  try {
    std::thread([host, resolve, promise = std::move(promise)]() mutable {
      promise.set_value(resolve(host));
    }).detach();
  } catch (const std::system_error&) {
    return {};  // no thread is available: libpq looks the name up, without a time limit
  }
  while (answer.wait_for(stop_check_interval) != std::future_status::ready) {
    if (stop.stop_requested()) return {};
    if (std::chrono::steady_clock::now() >= give_up_at) {
      return {.failure = LookupFailure{"cannot resolve host name \"" + host +
                                       "\": the name service did not answer"}};
    }
  }
  auto found = answer.get();
  if (found.error == 0) return {.addresses = std::move(found.addresses)};
  return {.failure = LookupFailure{
              "cannot resolve host name \"" + host + "\": " + ::gai_strerror(found.error),
              found.error == EAI_NONAME || found.error == EAI_NODATA}};
}

}  // namespace

Addresses resolve_host(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  Addresses result{.error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found)};
  if (result.error != 0) return result;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all{found, &::freeaddrinfo};
  for (const auto* each = found; each != nullptr; each = each->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(each->ai_addr, each->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0) {
      result.addresses.emplace_back(text.data());
    }
  }
  return result;
}

HostLookup look_up_hosts(const ConnectionSettings& settings,
                         std::chrono::steady_clock::time_point give_up_at,
                         const std::stop_token& stop, const Resolve& resolve) {
  if (!settings.get("hostaddr").empty()) return {};
  std::optional<LookupFailure> last;
  auto rest = settings.get("host");
  const bool is_list = rest.find(',') != std::string_view::npos;
  for (bool more = true; more;) {
    const auto comma = rest.find(',');
    more = comma != std::string_view::npos;
    const std::string host{rest.substr(0, comma)};
    if (more) rest.remove_prefix(comma + 1);
    if (needs_no_lookup(host)) return {};
    auto found = look_up(host, give_up_at, stop, resolve);
    if (!found.failure) return is_list ? HostLookup{} : std::move(found);
    if (last && !last->name_is_unknown) found.failure->name_is_unknown = false;
    last = std::move(found.failure);
  }
  return {.failure = std::move(last)};
}

}  // namespace dovetail::postgres
