// A PostgreSQL database behind the storage seam.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "core/call_scope.hpp"
#include "postgres/connection.hpp"
#include "postgres/notifier.hpp"
#include "postgres/session.hpp"
#include "storage/database.hpp"
#include "storage/pool.hpp"
#include "storage/retry.hpp"

namespace dovetail::postgres {

class Database final : public storage::Database {
 public:
  Database(std::string_view url, storage::DatabaseOptions options);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const std::string& schema() const override { return options_.schema; }
  [[nodiscard]] Clock& clock() const override { return *options_.clock; }
  void read(const ReadBody& body, const storage::ReadOptions& options) override;
  void write(const storage::WriteOptions& options, const WriteBody& body) override;
  [[nodiscard]] bool transactions_exclude_writers() const override { return false; }
  [[nodiscard]] storage::GroupCommitOptions group_commit() const override;
  void cancel_calls() override { closing_.request_stop(); }
  void close_idle() override {
    process_.require();
    pool_.close_idle();
    service_pool_.close_idle();
  }
  void add_service_connections(std::size_t more) override { service_pool_.grow(more); }
  [[nodiscard]] storage::PoolUse pool_use() const override {
    return {.in_use = pool_.in_use() + service_pool_.in_use(),
            .idle = pool_.idle() + service_pool_.idle()};
  }
  std::unique_ptr<storage::TransactionHandle> begin() override;
  std::optional<std::chrono::microseconds> clock_lead(storage::ReadSession& session) override;
  void listen(const std::stop_token& stop, const std::function<void(bool)>& connected) override;

  /// Wakes the workers of the queues into which the committed transaction of the session stored
  /// messages.
  void wake(const storage::WriteSession& session);

 private:
  /// A call that has used up nearly all of its time still gets an attempt of this length.
  static constexpr std::chrono::milliseconds least_connect_timeout{100};

  void register_stores();  // in stores.cpp
  void listen_once(const std::stop_token& stop, const std::function<void(bool)>& connected);
  /// The channel of NOTIFY that this schema uses.
  [[nodiscard]] std::string channel() const;
  /// Sends a NOTIFY for each queue, whose payload names the queue.
  void notify(const Notifier::Queues& queues, const std::stop_token& stop);
  void ring(std::string_view payload);
  /// The clock of the system: time limits of connections are limits of I/O.
  using TimePoint = std::chrono::steady_clock::time_point;
  [[nodiscard]] storage::RetryPolicy retry_policy(bool service) const;
  void write_once(const storage::WriteOptions& options, const WriteBody& body,
                  const storage::Attempt& attempt, TimePoint give_up_at);
  [[nodiscard]] std::unique_ptr<Connection> connect(const std::stop_token& stop,
                                                    TimePoint give_up_at);
  /// Makes the first connection, within connect_timeout. Throws InvalidOperation in a forked child.
  void require_connected(storage::Pool<Connection>& pool, const std::stop_token& stop);
  [[nodiscard]] storage::Pool<Connection>& pool_for(bool service) {
    return service ? service_pool_ : pool_;
  }
  [[nodiscard]] std::stop_token or_closing(const std::stop_token& stop) const {
    return core::CallScope::stop_of(stop, closing_.get_token());
  }
  [[nodiscard]] std::chrono::milliseconds retry_for() const {
    return core::CallScope::retry_for(options_.retry_for);
  }

  storage::DatabaseOptions options_;
  ConnectionSettings settings_;
  std::string name_;
  std::chrono::milliseconds connect_timeout_;
  core::OwnerProcess process_;
  std::stop_source closing_;
  std::atomic<bool> connected_{false};
  storage::StatementTexts texts_;
  storage::Pool<Connection> pool_;
  storage::Pool<Connection> service_pool_;  // for the dispatcher: handlers may hold all of pool_
  Notifier notifier_;
};

/// This engine, for the registry.
extern const storage::Engine engine;

}  // namespace dovetail::postgres
