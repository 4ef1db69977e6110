#include <stdexcept>

#include "core/require.hpp"
#include "dovetail/lease.hpp"
#include "storage/confirmed_write.hpp"
#include "storage/database.hpp"
#include "storage/lease_store.hpp"
#include "storage/portions.hpp"

namespace dovetail {
namespace {

constexpr std::size_t max_characters = 255;
constexpr std::chrono::milliseconds shortest{10};
constexpr std::chrono::milliseconds longest = std::chrono::hours{24};
constexpr int most_slots = 10'000;

void require_word(const char* what, std::string_view text) {
  if (text.empty()) throw std::invalid_argument(std::string{what} + " must not be empty");
  core::require_length(what, text, max_characters);
}

void require_duration(std::chrono::milliseconds duration) {
  if (duration < shortest || duration > longest)
    throw std::out_of_range("duration must be 10 ms to 24 h");
}

void require_lease(const Lease& lease) {
  require_word("name", lease.name);
  require_word("owner", lease.owner);
}

}  // namespace

Leases::Leases(storage::Database& database, Logger log, Metrics metrics)
    : database_(&database),
      store_(&database.store<storage::LeaseStore>()),
      log_(std::move(log)),
      metrics_(std::move(metrics)) {}

std::optional<Lease> Leases::acquire(std::string_view name, std::optional<int> limit,
                                     std::string_view owner, std::chrono::milliseconds duration,
                                     const std::stop_token& stop) {
  require_word("name", name);
  require_word("owner", owner);
  require_duration(duration);
  const storage::LeaseOrder order{
      .name = name, .owner = owner, .duration = duration, .slots = limit, .grant = Uuid::random()};
  std::optional<Lease> lease;
  database_->write(
      {.single_statement = true, .repeatable = true, .stop = stop},
      [&](storage::WriteSession& session) { lease = store_->try_acquire(session, order); });
  metrics_.count("dovetail_lease_calls_total", 1,
                 {{"store", database_->name()}, {"outcome", lease ? "acquired" : "busy"}});
  if (lease) {
    log_.write(
        LogLevel::info, "lease.acquired",
        {{"store", database_->name()}, {"name", name}, {"owner", owner}, {"token", lease->token}});
  } else {
    log_.write(LogLevel::debug, "lease.busy",
               {{"store", database_->name()}, {"name", name}, {"owner", owner}});
  }
  return lease;
}

std::optional<Lease> Leases::try_acquire(std::string_view name, std::string_view owner,
                                         std::chrono::milliseconds duration,
                                         const std::stop_token& stop) {
  return acquire(name, std::nullopt, owner, duration, stop);
}

std::optional<Lease> Leases::try_acquire_slot(std::string_view name, int limit,
                                              std::string_view owner,
                                              std::chrono::milliseconds duration,
                                              const std::stop_token& stop) {
  if (limit < 1 || limit > most_slots) throw std::out_of_range("limit must be 1 to 10000");
  return acquire(name, limit, owner, duration, stop);
}

std::optional<WallTime> Leases::renew(const Lease& lease, std::chrono::milliseconds duration,
                                      const std::stop_token& stop) {
  require_lease(lease);
  require_duration(duration);
  std::optional<WallTime> until;
  database_->write(
      {.single_statement = true, .repeatable = true, .service = true, .stop = stop},
      [&](storage::WriteSession& session) { until = store_->renew(session, lease, duration); });
  metrics_.count("dovetail_lease_calls_total", until ? 1 : 0,
                 {{"store", database_->name()}, {"outcome", "renewed"}});
  return until;
}

bool Leases::release(const Lease& lease, const std::stop_token& stop) {
  require_lease(lease);
  std::optional<bool> found;  // the last run found the lease, and whether it was still held
  const bool held = storage::confirmed_write(
      *database_, {.single_statement = true, .service = true, .stop = stop},
      [&](storage::WriteSession& session) {
        found = store_->release(session, lease);
        return found.value_or(false);
      },
      [&](storage::WriteSession&) { return !found; });
  log_.write(LogLevel::info, held ? "lease.released" : "lease.gone",
             {{"store", database_->name()},
              {"name", lease.name},
              {"owner", lease.owner},
              {"token", lease.token}});
  return held;
}

Clock& Leases::clock() const {
  return database_->clock();
}

void Leases::note_lost(const Lease& lease) const {
  metrics_.count("dovetail_lease_calls_total", 1,
                 {{"store", database_->name()}, {"outcome", "lost"}});
  log_.write(LogLevel::warn, "lease.lost",
             {{"store", database_->name()},
              {"name", lease.name},
              {"owner", lease.owner},
              {"token", lease.token}});
}

void Leases::note_failure(std::string_view event, const Lease& lease,
                          std::string_view error) const {
  metrics_.count("dovetail_lease_calls_total", 1,
                 {{"store", database_->name()}, {"outcome", event.substr(event.find('.') + 1)}});
  log_.write(LogLevel::warn, event,
             {{"store", database_->name()},
              {"name", lease.name},
              {"owner", lease.owner},
              {"token", lease.token},
              {"error", error}});
}

std::optional<Lease> Leases::find(std::string_view name) {
  require_word("name", name);
  std::vector<Lease> found;
  database_->read(
      [&](storage::ReadSession& session) { found = store_->list(session, name, {.size = 1}); });
  if (found.empty() || found.front().slot != 0) return std::nullopt;
  return found.front();
}

std::vector<Lease> Leases::list(const LeasePage& page) {
  core::require_batch_size("size", page.size);
  std::vector<Lease> found;
  database_->read(
      [&](storage::ReadSession& session) { found = store_->list(session, std::nullopt, page); });
  return found;
}

std::size_t Leases::purge(std::chrono::seconds age, const std::stop_token& stop) {
  if (age < std::chrono::seconds::zero() || age > std::chrono::hours{24 * 3650}) {
    throw std::out_of_range("age must be zero to ten years");
  }
  return storage::in_portions(
      *database_,
      [&](storage::WriteSession& session) { return store_->purge(session, age, storage::portion); },
      stop);
}

}  // namespace dovetail
