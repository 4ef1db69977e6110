// Stages: what has succeeded for a message, so that a retry begins with what has not.
//
//   platform.on_inbox("order.placed", [](const InboxMessage& message, HandlerContext& ctx) {
//     if (!ctx.stages().has(Stage::receptor_processed)) {
//       charge(message);
//       ctx.stage_done(Stage::receptor_processed);  // a retry does not charge again
//     }
//     update_views(message);
//   });
//
// The stages are kept with the message: while it waits for a retry, in its history, and when a dead
// letter is replayed. In SQL they are the column `stages` of the views `outbox_messages` and
// `inbox_messages`, with the bits below.
//
// Threads: Stages is a plain value.
#pragma once

#include <cstdint>
#include <string_view>

namespace dovetail {

enum class Stage : std::uint8_t {
  stored = 1,                  ///< The message is in its queue. Every message has it.
  event_stored = 2,            ///< It is an event of the event store, too (coordinator.hpp).
  published = 4,               ///< It was sent to a broker or a partner.
  receptor_processed = 8,      ///< Its handler has done its work.
  perspective_processed = 16,  ///< The views that depend on it are up to date.
};

[[nodiscard]] std::string_view to_string(Stage stage);

/// A set of stages.
class Stages {
 public:
  constexpr Stages() = default;
  /// A stage is a set of one.
  constexpr Stages(Stage stage)  // NOLINT(google-explicit-constructor)
      : bits_(static_cast<std::uint8_t>(stage)) {}
  /// The bits as SQL stores them. Unknown bits are ignored.
  [[nodiscard]] static constexpr Stages from_bits(std::int64_t bits) {
    Stages stages;
    stages.bits_ = static_cast<std::uint8_t>(bits & all_bits);
    return stages;
  }

  /// True if all of `stages` are in this set.
  [[nodiscard]] constexpr bool has(Stages stages) const {
    return (bits_ & stages.bits_) == stages.bits_;
  }
  [[nodiscard]] constexpr int bits() const { return bits_; }

  constexpr Stages& operator|=(Stages other) {
    bits_ = static_cast<std::uint8_t>(bits_ | other.bits_);
    return *this;
  }
  friend constexpr Stages operator|(Stages a, Stages b) { return a |= b; }
  friend constexpr bool operator==(Stages, Stages) = default;

 private:
  static constexpr std::int64_t all_bits = 31;
  std::uint8_t bits_ = 0;
};

[[nodiscard]] constexpr Stages operator|(Stage a, Stage b) {
  return Stages{a} | Stages{b};
}

}  // namespace dovetail
