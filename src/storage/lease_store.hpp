// Leases as a backend stores them.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "dovetail/lease.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

struct LeaseOrder {
  std::string_view name;
  std::string_view owner;
  std::chrono::microseconds duration{};
  std::optional<int> slots;  ///< Absent: a lease without slots.
  Uuid grant;                ///< Identifies the call; the same in every retry.
};

class LeaseStore {
 public:
  virtual ~LeaseStore() = default;

  /// Returns nothing if the lease is held.
  virtual std::optional<Lease> try_acquire(WriteSession& session, const LeaseOrder& order) = 0;
  /// Returns the new end; nothing if the lease is not held any more.
  virtual std::optional<WallTime> renew(WriteSession& session, const Lease& lease,
                                        std::chrono::microseconds duration) = 0;
  /// Returns whether the lease was still held; nothing if there is no such lease.
  virtual std::optional<bool> release(WriteSession& session, const Lease& lease) = 0;
  /// Deletes up to `most` leases that expired longer ago than `age`. Returns how many.
  virtual std::size_t purge(WriteSession& session, std::chrono::microseconds age, int most) = 0;
  /// Returns the held leases of one name, or of all, ordered by name and slot.
  virtual std::vector<Lease> list(ReadSession& session, std::optional<std::string_view> name,
                                  const LeasePage& page) = 0;
};

}  // namespace dovetail::storage
