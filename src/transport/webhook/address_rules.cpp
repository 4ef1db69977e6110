#include "transport/webhook/address_rules.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <stdexcept>

namespace dovetail::transport::webhook {
namespace {

constexpr std::array<std::uint8_t, 12> mapped_prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
constexpr int mapped_bits = 96;

bool is_mapped(const Address& address) {
  return std::equal(mapped_prefix.begin(), mapped_prefix.end(), address.begin());
}

Address mapped(const std::uint8_t* v4) {
  Address address{};
  std::copy(mapped_prefix.begin(), mapped_prefix.end(), address.begin());
  std::copy(v4, v4 + 4, address.begin() + mapped_prefix.size());
  return address;
}

std::vector<Network> networks(std::initializer_list<const char*> texts) {
  std::vector<Network> list;
  for (const auto* text : texts) list.push_back(parse_network(text));
  return list;
}

bool contains_any(const std::vector<Network>& list, const Address& address) {
  return std::ranges::any_of(list, [&](const Network& each) { return each.contains(address); });
}

/// From IANA's registries of special-purpose addresses.
const std::vector<Network>& special_networks() {
  static const auto list = networks({
      "0.0.0.0/8",        // this network
      "10.0.0.0/8",       // private
      "100.64.0.0/10",    // shared by a carrier (CGNAT)
      "127.0.0.0/8",      // loopback
      "169.254.0.0/16",   // link-local; clouds have their metadata here
      "172.16.0.0/12",    // private
      "192.0.0.0/24",     // protocols of the IETF
      "192.0.2.0/24",     // documentation
      "192.88.99.0/24",   // 6to4 relays
      "192.168.0.0/16",   // private
      "198.18.0.0/15",    // benchmarks
      "198.51.100.0/24",  // documentation
      "203.0.113.0/24",   // documentation
      "224.0.0.0/4",      // multicast
      "240.0.0.0/4",      // reserved, broadcast
      "2001::/23",        // protocols of the IETF, among them Teredo
      "2001:db8::/32",    // documentation
      "2002::/16",        // 6to4: contains an IPv4 address
      "3fff::/20",        // documentation
  });
  return list;
}

}  // namespace

std::optional<Address> parse_address(std::string_view text) {
  const std::string copy{text};
  Address v6{};
  if (::inet_pton(AF_INET6, copy.c_str(), v6.data()) == 1) return v6;
  std::array<std::uint8_t, 4> v4{};
  if (::inet_pton(AF_INET, copy.c_str(), v4.data()) == 1) return mapped(v4.data());
  return std::nullopt;
}

std::optional<Address> address_of(const sockaddr& socket) {
  if (socket.sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &socket, sizeof v4);
    std::array<std::uint8_t, 4> bytes{};
    std::memcpy(bytes.data(), &v4.sin_addr, bytes.size());
    return mapped(bytes.data());
  }
  if (socket.sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 v6{};
  std::memcpy(&v6, &socket, sizeof v6);
  Address address{};
  std::memcpy(address.data(), &v6.sin6_addr, address.size());
  return address;
}

std::string to_text(const Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool is_v4 = is_mapped(address);
  ::inet_ntop(is_v4 ? AF_INET : AF_INET6, address.data() + (is_v4 ? mapped_prefix.size() : 0),
              text.data(), text.size());
  return text.data();
}

bool Network::contains(const Address& other) const {
  const auto whole = static_cast<std::size_t>(bits) / 8;
  const auto rest = static_cast<unsigned>(bits) % 8;
  if (!std::equal(address.begin(), address.begin() + static_cast<std::ptrdiff_t>(whole),
                  other.begin())) {
    return false;
  }
  if (rest == 0) return true;
  const auto mask = static_cast<std::uint8_t>(0xFFU << (8 - rest));
  return (address[whole] & mask) == (other[whole] & mask);
}

Network parse_network(std::string_view text) {
  const auto slash = text.find('/');
  const auto address = parse_address(text.substr(0, slash));
  const bool is_v4 = text.find(':') == std::string_view::npos;
  const int most = is_v4 ? 32 : 128;
  int bits = most;
  bool is_network = address.has_value();
  if (slash != std::string_view::npos) {
    const auto number = text.substr(slash + 1);
    const auto* const end = number.data() + number.size();
    const auto [stopped, error] = std::from_chars(number.data(), end, bits);
    is_network = is_network && error == std::errc{} && stopped == end && bits >= 0 && bits <= most;
  }
  if (!is_network) {
    throw std::invalid_argument("\"" + std::string{text} +
                                "\" is not a network such as 10.0.0.0/8, 127.0.0.1 or fd00::/8");
  }
  return {*address, is_v4 ? mapped_bits + bits : bits};
}

bool is_public(const Address& address) {
  static const auto global_v6 = parse_network("2000::/3");
  static const auto nat64 = parse_network("64:ff9b::/96");
  if (nat64.contains(address)) return is_public(mapped(address.data() + mapped_prefix.size()));
  if (!is_mapped(address) && !global_v6.contains(address)) return false;
  return !contains_any(special_networks(), address);
}

AddressRules::AddressRules(const std::vector<std::string>& allowed_networks) {
  for (const auto& each : allowed_networks) allowed_.push_back(parse_network(each));
}

bool AddressRules::allows(const Address& address) const {
  return is_public(address) || contains_any(allowed_, address);
}

}  // namespace dovetail::transport::webhook
