#pragma once

#include "storage/lease_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::postgres {

class LeaseStore final : public storage::LeaseStore {
 public:
  explicit LeaseStore(const storage::StatementTexts& texts) : texts_(texts) {}

  std::optional<Lease> try_acquire(storage::WriteSession& session,
                                   const storage::LeaseOrder& order) override;
  std::optional<WallTime> renew(storage::WriteSession& session, const Lease& lease,
                                std::chrono::microseconds duration) override;
  std::optional<bool> release(storage::WriteSession& session, const Lease& lease) override;
  std::size_t purge(storage::WriteSession& session, std::chrono::microseconds age,
                    int most) override;
  std::vector<Lease> list(storage::ReadSession& session, std::optional<std::string_view> name,
                          const LeasePage& page) override;

 private:
  const storage::StatementTexts& texts_;
};

}  // namespace dovetail::postgres
