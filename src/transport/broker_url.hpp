// The URL of a broker: SCHEME://USER:PASSWORD@HOST:PORT/PATH.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dovetail::transport {

struct BrokerUrl {
  std::string scheme{};
  std::optional<std::string> user{};
  std::optional<std::string> password{};
  std::string host{};  ///< Without the brackets of an IPv6 address.
  std::optional<int> port{};
  std::string path{};  ///< Without the slash before it.

  /// Throws std::invalid_argument if `text` is not such a URL. The message does not contain a
  /// password.
  static BrokerUrl parse(std::string_view text);

  /// SCHEME://HOST:PORT, without secrets and without the path.
  [[nodiscard]] std::string address(int default_port) const;
};

}  // namespace dovetail::transport
