#include "postgres/work_store.hpp"

#include "postgres/session.hpp"
#include "postgres/sql.hpp"
#include "storage/work_json.hpp"

namespace dovetail::postgres {
WorkResult WorkStore::process(storage::WriteSession& session,
                              const storage::WorkBatchOrder& order) {
  Params params;
  params.add(std::string_view{storage::to_json(order)});
  const auto answer = WriteSession::of(session).run(texts_, sql::work_process, params);
  return storage::work_result_from_json(answer.bytes(0, 0));
}

bool WorkStore::leave(storage::WriteSession& session, InstanceId instance) {
  Params params;
  params.add(instance.uuid());
  return WriteSession::of(session).run(texts_, sql::work_leave, params).boolean(0, 0);
}

}  // namespace dovetail::postgres
