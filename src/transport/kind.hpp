// A kind of broker: how the configuration file and the command make its publishers and consumers.
//
// Each folder below src/transport registers one kind. Programs in C++ do not need it: they use the
// header of the broker.
//
// Threads: add_kind() before the first use; the rest from any.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/transport.hpp"

namespace dovetail::transport {

/// A setting of a kind.
struct Key {
  enum class Place : std::uint8_t {
    connection,  ///< In [transports.NAME].
    publish,     ///< In [[publish]].
    consume,     ///< In [[consume]].
  };
  enum class Type : std::uint8_t { text, number, boolean, duration, list };

  std::string name{};
  Place place = Place::connection;
  Type type = Type::text;
  std::string description{};
  bool secret = false;   ///< Never shown. `NAME_file` names a file that has it.
  bool is_path = false;  ///< A relative path begins at the folder of the configuration file.
};

/// The values of one publisher or consumer. A value of a list has several texts, the others one.
struct Settings {
  std::string url{};  ///< With its secrets.
  std::map<std::string, std::vector<std::string>, std::less<>> values{};

  // These return the fallback if the key has no value. They throw std::invalid_argument, with the
  // key and the limits in the text.

  [[nodiscard]] std::string text(std::string_view key, std::string fallback = {}) const;
  [[nodiscard]] std::optional<std::string> find(std::string_view key) const;
  [[nodiscard]] std::vector<std::string> list(std::string_view key) const;
  [[nodiscard]] bool flag(std::string_view key, bool fallback = false) const;
  [[nodiscard]] std::int64_t number(std::string_view key, std::int64_t least, std::int64_t most,
                                    std::int64_t fallback) const;
  /// `250ms`, `30s`, `5m`, `1h`.
  [[nodiscard]] std::chrono::milliseconds duration(std::string_view key,
                                                   std::chrono::milliseconds least,
                                                   std::chrono::milliseconds most,
                                                   std::chrono::milliseconds fallback) const;
};

struct Kind {
  std::string name{};                  ///< `nats`
  std::vector<std::string> schemes{};  ///< Of its URLs: `nats`, `nats+tls`.
  std::string description{};           ///< One line, for `dovetail transports`.
  std::vector<Key> keys{};
  /// These throw std::invalid_argument for settings that cannot work. They do not connect. Null:
  /// the kind has no publishers or no consumers.
  std::function<std::shared_ptr<Publisher>(const Settings& settings)> make_publisher{};
  std::function<std::shared_ptr<Consumer>(const Settings& settings)> make_consumer{};

  [[nodiscard]] const Key* find(std::string_view key, Key::Place place) const;
};

/// Throws InvalidOperation if another kind has the same name or scheme.
void add_kind(Kind kind);
/// Adds the kinds that the program was built with. Defined by the build, for programs that link all
/// of them.
void add_all_kinds();
/// In the order of their names.
[[nodiscard]] std::vector<const Kind*> kinds();
/// The kind of this URL. Throws std::invalid_argument, which names the schemes that exist.
[[nodiscard]] const Kind& kind_of(std::string_view url);

/// `url` without its password.
[[nodiscard]] std::string without_secrets(std::string_view url);

}  // namespace dovetail::transport
