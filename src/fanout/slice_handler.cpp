// The handler of slices: the user's function, and the completion of the slice in its transaction.
#include <stdexcept>

#include "dovetail/fanout.hpp"
#include "storage/database.hpp"
#include "storage/fanout_store.hpp"

namespace dovetail {
namespace {

/// Forwards all calls, and records whether the handler has snoozed.
class SliceContext final : public HandlerContext {
 public:
  explicit SliceContext(HandlerContext& context) : context_(context) {}

  [[nodiscard]] std::stop_token stop_token() const override { return context_.stop_token(); }
  [[nodiscard]] const std::string& database() const override { return context_.database(); }
  [[nodiscard]] std::int64_t epoch() const override { return context_.epoch(); }
  [[nodiscard]] Transaction& transaction() override { return context_.transaction(); }
  void snooze(std::chrono::milliseconds delay) override {
    context_.snooze(delay);
    snoozed_ = true;
  }
  void commit_and_snooze(std::chrono::milliseconds delay) override {
    context_.commit_and_snooze(delay);
    snoozed_ = true;
  }
  [[nodiscard]] Stages stages() const override { return context_.stages(); }
  bool stage_done(Stages stages) override { return context_.stage_done(stages); }
  [[nodiscard]] bool snoozed() const { return snoozed_; }

 private:
  HandlerContext& context_;
  bool snoozed_ = false;
};

FanoutSlice slice_of(const Message& message) {
  try {
    return FanoutSlice::from(message);
  } catch (const std::exception& error) {
    throw PermanentFailure(error.what());
  }
}

}  // namespace

bool Fanout::is_superseded(const FanoutSlice& slice) {
  std::optional<WallTime> completed;
  database_->read(
      [&](storage::ReadSession& session) { completed = store_->last_completed(session, slice); });
  return completed != slice.window_start;
}

/// The transaction begins only when the function asks for it, or at the end: on SQLite it excludes
/// all other writers. The completion compares the cursor again, because another message of the same
/// window may have completed it meanwhile.
void Fanout::handle_slice(const FanoutHandlerFunction& function, const Message& message,
                          HandlerContext& context) {
  const auto slice = slice_of(message);
  if (is_superseded(slice)) {
    note_slice("fanout.superseded", "dovetail_fanout_superseded_total", slice, LogLevel::info);
    return;
  }
  SliceContext watched(context);
  function(slice, watched);
  if (watched.snoozed()) return;
  if (!mark_completed(context.transaction(), slice)) {
    throw std::runtime_error(
        "another message has completed this window meanwhile; the writes are rolled back");
  }
}

}  // namespace dovetail
