#pragma once

#include <memory>

#include "dovetail/clock.hpp"
#include "storage/lease_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::sqlite {

class LeaseStore final : public storage::LeaseStore {
 public:
  LeaseStore(const storage::StatementTexts& texts, std::shared_ptr<Clock> clock)
      : texts_(texts), clock_(std::move(clock)) {}

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
  std::shared_ptr<Clock> clock_;
};

}  // namespace dovetail::sqlite
