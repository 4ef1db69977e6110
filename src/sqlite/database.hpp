// An SQLite file behind the storage seam.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "core/owner_process.hpp"
#include "sqlite/connection.hpp"
#include "sqlite/writer.hpp"
#include "storage/database.hpp"
#include "storage/pool.hpp"
#include "storage/retry.hpp"

namespace dovetail::sqlite {

class Database final : public storage::Database {
 public:
  Database(std::string_view url, storage::DatabaseOptions options);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const std::string& schema() const override { return options_.schema; }
  [[nodiscard]] Clock& clock() const override { return *options_.clock; }
  [[nodiscard]] bool exists() const override;
  void read(const ReadBody& body, const storage::ReadOptions& options) override;
  void write(const storage::WriteOptions& options, const WriteBody& body) override;
  [[nodiscard]] bool transactions_exclude_writers() const override { return true; }
  void cancel_calls() override;
  void close_idle() override;
  /// The connections that read.
  [[nodiscard]] storage::PoolUse pool_use() const override {
    return {.in_use = readers_.in_use(), .idle = readers_.idle()};
  }
  std::unique_ptr<storage::TransactionHandle> begin() override;
  std::optional<std::chrono::microseconds> clock_lead(storage::ReadSession& session) override;
  void listen(const std::stop_token& stop, const std::function<void(bool)>& connected) override;

  /// Wakes the workers of the queues in this process.
  void wake(std::span<const storage::WakeUp> wake_ups);

 private:
  void register_stores();  // in stores.cpp
  [[nodiscard]] std::uint64_t own_commit_steps();
  void watch(const std::stop_token& stop, const std::function<void(bool)>& connected);
  /// Opens the writer at the first write, so that a read never creates the file. Keep the copy
  /// during its use: close_idle() closes a writer without further copies.
  std::shared_ptr<Writer> writer();
  /// Throws InvalidOperation in a forked child.
  [[nodiscard]] storage::RetryPolicy retry_policy() const;

  storage::DatabaseOptions options_;
  core::OwnerProcess process_;
  std::string path_;
  std::string name_;
  storage::StatementTexts texts_;
  storage::Pool<Connection> readers_;
  std::atomic<bool> closing_{false};
  std::mutex writer_mutex_;
  std::shared_ptr<Writer> writer_;
  std::uint64_t closed_writers_steps_ = 0;
};

/// This engine, for the registry.
extern const storage::Engine engine;

}  // namespace dovetail::sqlite
