// What a background loop does at the moment: whether it makes progress.
//
// A loop alternates between rounds and rests. It makes progress when a round begins or ends, and
// when a call of the database succeeds within a round (note_current()): a round that deletes a
// million rows in portions is not stuck. A resting loop is late if it does not begin its next round
// when that is due.
//
// Threads: look() from any; the rest from the thread of the loop.
#pragma once

#include <mutex>

#include "dovetail/clock.hpp"

namespace dovetail::core {

class LoopProgress {
 public:
  explicit LoopProgress(const Clock& clock) : clock_(clock) {}
  LoopProgress(const LoopProgress&) = delete;
  LoopProgress& operator=(const LoopProgress&) = delete;

  /// A round begins.
  void begin();
  /// The round has ended, and the next one is due at `next`; MonoTime::max(): when something
  /// happens.
  void rest(MonoTime next);
  /// Something happened: the next round is due at `time` at the latest.
  void due_by(MonoTime time);

  /// Makes the round of this loop a rest while the code of a user runs, which may take any time.
  class Aside {
   public:
    explicit Aside(LoopProgress& progress);
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;
    ~Aside();

   private:
    LoopProgress& progress_;
    const bool in_round_;
  };

  /// Progress within the round that this thread makes, if it makes one.
  static void note_current();

  struct State {
    MonoTime last{};         ///< The last progress. A loop that rests on time: now.
    MonoDuration overdue{};  ///< How long progress has been missing. Zero for a rest on time.
  };
  [[nodiscard]] State look() const;

 private:
  const Clock& clock_;
  mutable std::mutex mutex_;
  bool in_round_ = false;
  MonoTime last_{};
  MonoTime due_ = MonoTime::max();
};

}  // namespace dovetail::core
