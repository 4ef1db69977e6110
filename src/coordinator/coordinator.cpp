#include "dovetail/coordinator.hpp"

#include <algorithm>
#include <exception>
#include <iterator>

#include "coordinator/rules.hpp"
#include "dovetail/error.hpp"
#include "storage/database.hpp"

namespace dovetail {
namespace {

/// The most operations of one call, and the most bytes of its payloads. A longer buffer takes
/// several calls.
constexpr std::size_t most_per_call = 1'000;
constexpr std::size_t bytes_per_call = std::size_t{64} << 20;

/// Moves up to `most` elements from the front of one list to the end of the other. Returns what is
/// left of `most`.
template <class Item>
std::size_t move_some(std::vector<Item>& from, std::vector<Item>& to, std::size_t most) {
  const auto count = std::min(most, from.size());
  const auto end = from.begin() + static_cast<std::ptrdiff_t>(count);
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(end));
  from.erase(from.begin(), end);
  return most - count;
}

/// The number of messages, up to `most`, whose payloads fit into `bytes`: at least one if `first`.
template <class Item>
std::size_t fitting(const std::vector<Item>& messages, std::size_t most, std::size_t& bytes,
                    bool first) {
  std::size_t count = 0;
  for (; count < std::min(most, messages.size()); ++count) {
    const auto size = messages[count].message.payload.size();
    if (size > bytes && !(first && count == 0)) break;
    bytes -= std::min(size, bytes);
  }
  return count;
}

/// Messages first: if the process dies between two calls, a result is missing, and its work is done
/// again. A message whose result was stored without it would be lost.
WorkBatch take_some(WorkBatch& from, std::size_t most) {
  WorkBatch some;
  auto bytes = bytes_per_call;
  const auto outbox = fitting(from.outbox_messages, most, bytes, true);
  move_some(from.outbox_messages, some.outbox_messages, outbox);
  const auto inbox = fitting(from.inbox_messages, most - outbox, bytes, outbox == 0);
  move_some(from.inbox_messages, some.inbox_messages, inbox);
  if (!from.outbox_messages.empty() || !from.inbox_messages.empty()) return some;
  most = move_some(from.completions, some.completions, most - outbox - inbox);
  most = move_some(from.failures, some.failures, most);
  most = move_some(from.releases, some.releases, most);
  move_some(from.renewals, some.renewals, most);
  return some;
}

template <class Item>
void append(std::vector<Item>& to, std::vector<Item>& from) {
  move_some(from, to, from.size());
}

void add(WorkResult& total, WorkResult& result) {
  total.completed += result.completed;
  total.failed += result.failed;
  total.released += result.released;
  append(total.outbox, result.outbox);
  append(total.inbox, result.inbox);
  append(total.work, result.work);
  append(total.lost, result.lost);
  if (result.share) total.share = result.share;
}

/// False for a flush that had nothing to send.
bool brought_something(const WorkResult& result) {
  return result.share || !result.outbox.empty() || !result.inbox.empty() || !result.work.empty() ||
         !result.lost.empty() || result.completed + result.failed + result.released > 0;
}

bool is_full(const WorkResult& result, WorkKind queue, const std::optional<WorkClaim>& claim) {
  return claim &&
         std::ranges::count(result.work, queue, &Work::queue) >= std::ptrdiff_t{claim->batch_size};
}

}  // namespace

Coordinator::Coordinator(WorkBatches& batches, CoordinatorOptions options)
    : batches_(&batches), options_(std::move(options)), exceptions_(std::uncaught_exceptions()) {
  coordinator::require_options(options_);
  if (options_.strategy == WorkStrategy::interval)
    thread_ = std::jthread{[this](const std::stop_token& stop) { run(stop); }};
}

Coordinator::~Coordinator() {
  end();
}

// --- the buffer

template <class Add>
void Coordinator::queue(const Add& add_to) {
  require_room();
  {
    const std::scoped_lock lock{mutex_};
    add_to(pending_);
    if (pending_.operations() >= static_cast<std::size_t>(options_.flush_at)) wakes_.notify_all();
  }
  if (options_.strategy == WorkStrategy::immediate) send_by_itself(false);
}

/// Threads that add at the same time may exceed the limit by one operation each.
void Coordinator::require_room() {
  if (buffered() >= static_cast<std::size_t>(options_.max_buffered)) send_by_itself(false);
}

MessageId Coordinator::queue_outbox_message(EnqueueRequest request, const StoreOptions& options) {
  coordinator::require_outbox(request, options, batches_->outbox_->options());
  const bool is_given = request.message_id.has_value();
  if (!is_given) request.message_id = MessageId::generate();
  const auto id = *request.message_id;
  queue([&](WorkBatch& batch) {
    has_given_ids_ = has_given_ids_ || is_given;
    batch.outbox_messages.push_back({.message = std::move(request), .options = options});
  });
  return id;
}

MessageId Coordinator::queue_inbox_message(InboxRequest request, const StoreOptions& options) {
  coordinator::require_inbox(request, options, batches_->inbox_->options().queue);
  const auto id = MessageId::generate();
  queue([&](WorkBatch& batch) {
    batch.inbox_messages.push_back({.message = std::move(request), .options = options, .id = id});
  });
  return id;
}

void Coordinator::queue_completion(const Work& work, Stages stages) {
  queue([&](WorkBatch& batch) {
    batch.completions.push_back({.queue = work.queue, .claim = work.claim, .stages = stages});
  });
}

void Coordinator::queue_failure(const Work& work, std::string_view error,
                                const FailureOptions& options) {
  coordinator::require_failure(error, options.delay);
  queue([&](WorkBatch& batch) {
    batch.failures.push_back({.queue = work.queue,
                              .claim = work.claim,
                              .stages = options.stages,
                              .error = std::string{error},
                              .permanent = options.permanent,
                              .delay = options.delay});
  });
}

void Coordinator::queue_release(const Work& work, Stages stages) {
  queue([&](WorkBatch& batch) {
    batch.releases.push_back({.queue = work.queue, .claim = work.claim, .stages = stages});
  });
}

void Coordinator::queue_renewal(const Work& work) {
  queue([&](WorkBatch& batch) {
    batch.renewals.push_back({.queue = work.queue, .claim = work.claim});
  });
}

std::size_t Coordinator::buffered() const {
  const std::scoped_lock lock{mutex_};
  return pending_.operations() + in_sending_;
}

WorkBatch Coordinator::discard() {
  const std::scoped_lock sending{send_mutex_};
  const std::scoped_lock lock{mutex_};
  auto all = std::exchange(sending_, {});
  append(all.completions, pending_.completions);
  append(all.failures, pending_.failures);
  append(all.releases, pending_.releases);
  append(all.outbox_messages, pending_.outbox_messages);
  append(all.inbox_messages, pending_.inbox_messages);
  append(all.renewals, pending_.renewals);
  in_sending_ = 0;
  has_given_ids_ = failed_before_ = may_have_run_ = false;
  return all;
}

CoordinatorStats Coordinator::stats() const {
  const std::scoped_lock lock{mutex_};
  return stats_;
}

// --- sending

WorkResult Coordinator::flush() {
  return send({}, {});
}

WorkResult Coordinator::flush_and_claim() {
  return send(options_.claim_outbox, options_.claim_inbox);
}

WorkResult Coordinator::flush_and_claim(const std::optional<WorkClaim>& outbox,
                                        const std::optional<WorkClaim>& inbox) {
  if (outbox) coordinator::require_claim(*outbox);
  if (inbox) coordinator::require_claim(*inbox);
  return send(outbox, inbox);
}

WorkResult Coordinator::send(const std::optional<WorkClaim>& outbox,
                             const std::optional<WorkClaim>& inbox) {
  const std::scoped_lock sending{send_mutex_};
  WorkResult total;
  // Operations that other threads add meanwhile wait for the next flush.
  auto left = buffered();
  do {
    {
      const std::scoped_lock lock{mutex_};
      if (in_sending_ == 0) sending_ = take_some(pending_, std::min(most_per_call, left));
      in_sending_ = sending_.operations();
      new_ids_ = !has_given_ids_ && !failed_before_;
      left -= std::min(left, in_sending_);
    }
    auto result = left == 0 ? send_once(outbox, inbox) : send_once({}, {});
    add(total, result);
  } while (left > 0);
  return total;
}

WorkResult Coordinator::send_once(const std::optional<WorkClaim>& outbox,
                                  const std::optional<WorkClaim>& inbox) {
  sending_.claim_outbox = outbox;
  sending_.claim_inbox = inbox;
  const auto operations = sending_.operations();
  if (operations == 0 && !outbox && !inbox) return {};
  WorkResult result;
  try {
    result = batches_->process(sending_, options_.work, {may_have_run_, new_ids_});
  } catch (const Error& error) {
    if (operations > 0) {
      failed_before_ = true;
      may_have_run_ = may_have_run_ || error.is_in_doubt();
    }
    batches_->metrics_.count("dovetail_coordinator_flush_failed_total", 1,
                             {{"store", batches_->database_->name()}});
    throw;
  } catch (...) {  // after the commit, perhaps
    failed_before_ = may_have_run_ = operations > 0;
    throw;
  }
  const std::scoped_lock lock{mutex_};
  sending_ = {};
  in_sending_ = 0;
  failed_before_ = may_have_run_ = false;
  has_given_ids_ = has_given_ids_ && pending_.operations() > 0;
  ++stats_.calls;
  stats_.operations += operations;
  stats_.saved += operations > 1 ? operations - 1 : 0;
  return result;
}

bool Coordinator::send_by_itself(bool claims) {
  const auto result = claims ? flush_and_claim() : flush();
  deliver(result);
  return claims && (is_full(result, WorkKind::outbox, options_.claim_outbox) ||
                    is_full(result, WorkKind::inbox, options_.claim_inbox));
}

void Coordinator::deliver(const WorkResult& result) {
  if (!options_.on_result || !brought_something(result)) return;
  std::string failure;
  try {
    options_.on_result(result);
    return;
  } catch (const std::exception& error) {
    failure = error.what();
  } catch (...) {
    failure = "the callback threw something that is no std::exception";
  }
  batches_->log_.write(LogLevel::error, "coordinator.callback_failed",
                       {{"store", batches_->database_->name()}, {"error", failure}});
  // Results that the function has queued count first.
  for (const auto& work : result.work) queue_release(work);
}

// --- the thread of the interval, and the end

void Coordinator::run(const std::stop_token& stop) {
  auto& clock = batches_->database_->clock();
  const std::stop_callback wake{stop, [this] {
                                  const std::scoped_lock lock{mutex_};
                                  wakes_.notify_all();
                                }};
  bool failed = false;
  bool has_more = false;
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock{mutex_};
      const auto deadline = clock.mono() + (has_more ? MonoDuration::zero() : options_.interval);
      while (!stop.stop_requested() && clock.mono() < deadline &&
             (failed || pending_.operations() < static_cast<std::size_t>(options_.flush_at))) {
        clock.wait_until(wakes_, lock, deadline);
      }
    }
    if (stop.stop_requested()) return;
    failed = has_more = false;
    try {
      has_more = send_by_itself(true);
    } catch (const std::exception& error) {
      failed = true;
      batches_->log_.write(LogLevel::warn, "coordinator.flush_failed",
                           {{"store", batches_->database_->name()},
                            {"buffered", buffered()},
                            {"error", error.what()}});
    }
  }
}

void Coordinator::end() noexcept {
  try {
    if (thread_.joinable()) {
      thread_.request_stop();
      thread_.join();
    }
    const bool discards = options_.strategy == WorkStrategy::scoped &&
                          options_.on_exception == OnException::discard &&
                          std::uncaught_exceptions() > exceptions_;
    if (discards) {
      batches_->metrics_.count("dovetail_coordinator_discarded_total", discard().operations(),
                               {{"store", batches_->database_->name()}});
    } else if (buffered() > 0) {
      send_by_itself(false);
      if (buffered() > 0) report_unsent("queued by on_result while the coordinator ended");
    }
  } catch (const std::exception& error) {
    report_unsent(error.what());
  } catch (...) {
    report_unsent("unknown");
  }
}

void Coordinator::report_unsent(std::string_view reason) const noexcept {
  const auto operations = buffered();
  batches_->metrics_.count("dovetail_coordinator_unsent_total", operations,
                           {{"store", batches_->database_->name()}});
  batches_->log_.write(
      LogLevel::error, "coordinator.unsent",
      {{"store", batches_->database_->name()}, {"operations", operations}, {"error", reason}});
}

}  // namespace dovetail
