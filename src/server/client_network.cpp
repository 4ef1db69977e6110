#include "server/client_network.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

namespace dovetail::server {
namespace {

constexpr std::size_t network_bytes = 8;
constexpr std::size_t mapped_prefix_bytes = 12;

std::string shown(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return inet_ntop(family, address, text.data(), text.size()) != nullptr ? text.data() : "";
}

}  // namespace

std::string client_network(const std::string& address) {
  in6_addr parsed{};
  const auto without_zone = address.substr(0, address.find('%'));
  if (inet_pton(AF_INET6, without_zone.c_str(), &parsed) != 1) return address;
  if (IN6_IS_ADDR_V4MAPPED(&parsed)) return shown(AF_INET, parsed.s6_addr + mapped_prefix_bytes);
  std::fill(parsed.s6_addr + network_bytes, std::end(parsed.s6_addr), std::uint8_t{0});
  return shown(AF_INET6, &parsed) + "/64";
}

}  // namespace dovetail::server
