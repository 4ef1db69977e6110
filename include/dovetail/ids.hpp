// Identifiers: 128-bit UUIDs, and one strong type per kind of thing.
//
// Guarantees
//   * `Uuid::v7()` is unique across processes and machines. It strictly increases within a process,
//     even when the wall clock is set back, and after fork().
//   * Different id types do not convert implicitly into each other, nor from or to a Uuid.
//
// Threads: ids are plain values. The generating functions may be called from any thread.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace dovetail {

class Uuid {
 public:
  using Bytes = std::array<std::uint8_t, 16>;

  /// The nil UUID: all bits zero.
  constexpr Uuid() = default;
  constexpr explicit Uuid(const Bytes& bytes) : bytes_(bytes) {}

  /// A time-ordered UUID (RFC 9562, version 7). Rows with such a key are appended to an index
  /// instead of scattered over it.
  [[nodiscard]] static Uuid v7();

  /// A random UUID (version 4).
  [[nodiscard]] static Uuid random();

  /// Parses the 36-character form; letters are case-insensitive. Rejects every other form, such as
  /// braces or missing hyphens.
  [[nodiscard]] static std::optional<Uuid> parse(std::string_view text);

  /// The 36-character form in lower case.
  [[nodiscard]] std::string to_string() const;

  [[nodiscard]] constexpr const Bytes& bytes() const { return bytes_; }
  [[nodiscard]] constexpr bool is_nil() const { return bytes_ == Bytes{}; }

  friend constexpr auto operator<=>(const Uuid&, const Uuid&) = default;

 private:
  Bytes bytes_{};
};

/// A Uuid with a type. `Tag` decides which version generate() makes.
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(const Uuid& value) : value_(value) {}

  [[nodiscard]] static Id generate() { return Id{Tag::generate()}; }
  [[nodiscard]] static std::optional<Id> parse(std::string_view text) {
    auto value = Uuid::parse(text);
    return value ? std::optional<Id>{Id{*value}} : std::nullopt;
  }

  [[nodiscard]] constexpr const Uuid& uuid() const { return value_; }
  [[nodiscard]] std::string to_string() const { return value_.to_string(); }
  [[nodiscard]] constexpr bool is_nil() const { return value_.is_nil(); }

  friend constexpr auto operator<=>(const Id&, const Id&) = default;

 private:
  Uuid value_;
};

namespace detail {
struct OrderedIdTag {
  static Uuid generate() { return Uuid::v7(); }
};
struct RandomIdTag {
  static Uuid generate() { return Uuid::random(); }
};
struct MessageTag : OrderedIdTag {};
struct JoinTag : OrderedIdTag {};
struct TimerTag : OrderedIdTag {};
struct JobTag : OrderedIdTag {};
struct JobRunTag : OrderedIdTag {};
struct StreamTag : OrderedIdTag {};
struct OwnerTag : RandomIdTag {};
struct InstanceTag : OrderedIdTag {};
struct EventTag : OrderedIdTag {};
}  // namespace detail

using MessageId = Id<detail::MessageTag>;  ///< A message; it stays the same through all retries.
using JoinId = Id<detail::JoinTag>;
using TimerId = Id<detail::TimerTag>;
using JobId = Id<detail::JobTag>;
using JobRunId = Id<detail::JobRunTag>;
using StreamId = Id<detail::StreamTag>;
using OwnerToken = Id<detail::OwnerTag>;     ///< A worker: generate one at every process start.
using InstanceId = Id<detail::InstanceTag>;  ///< A process that works on a database.
using EventId = Id<detail::EventTag>;

}  // namespace dovetail

template <>
struct std::hash<dovetail::Uuid> {
  std::size_t operator()(const dovetail::Uuid& id) const noexcept;
};
template <class Tag>
struct std::hash<dovetail::Id<Tag>> {
  std::size_t operator()(const dovetail::Id<Tag>& id) const noexcept {
    return std::hash<dovetail::Uuid>{}(id.uuid());
  }
};
