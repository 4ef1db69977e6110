// Handles the events of one part of a subscription, while this process holds its lease.
//
// Threads: as SteppedService.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "component/stepped_service.hpp"
#include "event/registrations.hpp"
#include "event/scope.hpp"

namespace dovetail::event {

/// Creates a subscription once per start.
class SubscriptionCreator {
 public:
  SubscriptionCreator(std::shared_ptr<Scope> scope,
                      std::shared_ptr<const Registration> registration)
      : scope_(std::move(scope)), registration_(std::move(registration)) {}
  void create_once(const std::stop_token& stop);
  [[nodiscard]] const Registration& registration() const { return *registration_; }

 private:
  [[nodiscard]] std::int64_t start_position(const std::stop_token& stop);

  const std::shared_ptr<Scope> scope_;
  const std::shared_ptr<const Registration> registration_;
  std::mutex mutex_;
  bool created_ = false;
};

class SubscriptionRunner final : public component::SteppedService {
 public:
  SubscriptionRunner(std::shared_ptr<Scope> scope, std::shared_ptr<Holdings> holdings,
                     std::shared_ptr<SubscriptionCreator> creator, int part);
  ~SubscriptionRunner() override;

  [[nodiscard]] std::string name() const override;
  /// Reads and writes use the connections of handlers.
  [[nodiscard]] std::size_t connections() const override { return 0; }
  MonoTime step(const std::stop_token& stop) override;
  bool stop(MonoTime deadline) override;
  void cut_off() override { cut_.request_stop(); }
  [[nodiscard]] component::ServiceHealth health() const override;

 private:
  void subscribe() override;
  void unsubscribe() override;

  MonoTime work(const std::stop_token& stop);
  MonoTime wait_for_retry(const std::stop_token& stop);
  bool acquire(const std::stop_token& stop);
  /// Leases its part, or a surplus part that drains.
  bool acquire_next(const std::stop_token& stop);
  void release();
  void forget();
  void load_parked(const std::stop_token& stop);
  /// Handles a page. Returns whether there may be more.
  bool handle_page(const std::stop_token& stop);
  Feed read_page(const std::stop_token& stop);
  [[nodiscard]] bool is_parked(const Event& event) const;
  /// Handles the events that an operator has resumed. Returns whether there were any.
  bool handle_resumed(const std::stop_token& stop);
  enum class Resumed { done, failed, interrupted };
  Resumed handle_resumed(ParkedEvent& parked, const std::stop_token& stop);
  /// An operator has skipped it.
  [[nodiscard]] bool is_skipped(const Event& event) const;

  enum class Called { done, failed, lost };
  /// Moves the stored state, in the transaction of the handler or in its own. Returns false if the
  /// part is not held any more.
  using Move = std::function<bool(storage::WriteSession& session)>;
  struct Moves {
    Move with_handler;  ///< In the transaction of the handler.
    Move alone;         ///< If the handler has begun none.
  };
  Called call(std::span<const Event> events, const std::stop_token& stop, const Moves& moves);
  bool commit(storage::TransactionHandle* transaction, const Moves& moves);
  bool write(const Move& move);
  void note_failure(const Event& first, std::size_t count);
  void apply_policy(const Event& event);
  void park(const Event& event);
  [[nodiscard]] std::chrono::milliseconds retry_delay(int attempts) const;

  const std::shared_ptr<Scope> scope_;
  const std::shared_ptr<Holdings> holdings_;
  const std::shared_ptr<SubscriptionCreator> creator_;
  const Registration& registration_;
  const int home_;  ///< The part of this runner.

  // Of the thread that makes the steps.
  int part_;  ///< The part it works on: another one while surplus parts drain.
  std::shared_ptr<Holding> holding_;
  std::int64_t position_ = 0;
  bool catches_up_ = false;        ///< The last page was full.
  std::int64_t single_until_ = 0;  ///< Up to it, events are handled one at a time.
  MonoTime leased_at_ = MonoTime::min();
  MonoTime retry_at_ = MonoTime::min();
  std::vector<ParkedEvent> parked_;
  std::unordered_set<std::string> parked_streams_;
  std::unordered_set<std::int64_t> parked_positions_;  ///< Of events, also skipped ones.
  int failed_attempts_ = 0;                            ///< For the next event.
  std::string last_failure_;
  bool is_permanent_ = false;  ///< The last failure was a PermanentFailure.

  std::stop_source cut_;
  mutable std::mutex mutex_;
  std::condition_variable_any ended_;
  bool handling_ = false;
  component::ServiceHealth health_;
  std::optional<storage::Doorbell::Subscription> bell_;
  std::optional<storage::Listener::Subscription> hearing_;
};

}  // namespace dovetail::event
