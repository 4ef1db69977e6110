// Which addresses a webhook may connect to.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::transport::webhook {

/// An IPv6 address. An IPv4 address is here in its mapped form (`::ffff:a.b.c.d`), so that both
/// spellings of it follow the same rules.
using Address = std::array<std::uint8_t, 16>;

/// Nothing if it is not an IP address.
[[nodiscard]] std::optional<Address> parse_address(std::string_view text);
/// The address of a socket, or nothing if it is neither IPv4 nor IPv6.
[[nodiscard]] std::optional<Address> address_of(const sockaddr& socket);
/// `127.0.0.1` or `fe80::1`.
[[nodiscard]] std::string to_text(const Address& address);

/// All addresses with the same first bits.
struct Network {
  Address address{};
  int bits = 128;

  [[nodiscard]] bool contains(const Address& other) const;
};

/// `10.0.0.0/8`, `::1`. Throws std::invalid_argument.
[[nodiscard]] Network parse_network(std::string_view text);

/// Whether hosts of the public Internet have such addresses: not private, loopback, link-local,
/// shared (CGNAT), multicast, for documentation, or a form that contains such an IPv4 address.
[[nodiscard]] bool is_public(const Address& address);

/// The addresses that one publisher may connect to.
class AddressRules {
 public:
  explicit AddressRules(const std::vector<std::string>& allowed_networks);
  [[nodiscard]] bool allows(const Address& address) const;

 private:
  std::vector<Network> allowed_;
};

}  // namespace dovetail::transport::webhook
