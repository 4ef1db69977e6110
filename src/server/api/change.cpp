#include "server/api/change.hpp"

namespace dovetail::server::api {

Change::Change(const Api& api, const Request& request, std::string action)
    : request_(request),
      action_(std::move(action)),
      body_(request.body),
      platform_(database_of(api, request)) {
  require_query(request, {});
}

void Change::describe(std::string target, const ordered_json& detail) {
  body_.finish();
  target_ = std::move(target);
  using Handling = ordered_json::error_handler_t;
  if (!detail.is_null()) detail_ = detail.dump(-1, ' ', false, Handling::replace);
}

std::string Change::actor() const {
  const auto& name = request_.identity.name;
  return name.empty() ? "anonymous@" + request_.peer : name;
}

AuditRecord Change::record_of(std::optional<std::int64_t> count) const {
  return {
      .actor = actor(), .action = action_, .target = target_, .detail = detail_, .count = count};
}

void Change::record_failure(const std::string& error) {
  auto record = record_of(0);
  record.result = error;
  try {
    platform_->audit().record(record);
  } catch (const std::exception&) {
    return;  // the answer is the first error; the database that failed may be the reason of both
  }
}

Response Change::make(const std::function<Changed()>& change) {
  Changed changed;
  try {
    changed = change();
  } catch (const std::exception& error) {
    record_failure(error.what());
    throw;
  }
  platform_->audit().record(record_of(changed.count));
  return answer(std::move(changed.answer), changed.status);
}

Response Change::make_in_transaction(
    const std::function<Changed(Transaction& transaction)>& change) {
  Changed changed;
  try {
    auto transaction = platform_->begin();
    changed = change(transaction);
    platform_->audit().record(transaction, record_of(changed.count));
    transaction.commit();
  } catch (const std::exception& error) {
    record_failure(error.what());
    throw;
  }
  return answer(std::move(changed.answer), changed.status);
}

void add_change(RouteTable& routes, const Api& api, ChangeRoute route) {
  auto handler = [api, action = route.action,
                  run = std::move(route.handler)](const Request& request) {
    Change change{api, request, action};
    return run(change);
  };
  routes.add({.method = route.method,
              .pattern = route.pattern,
              .role = route.role,
              .handler = std::move(handler)});
}

void add_read(RouteTable& routes, const std::string& pattern,
              std::function<Response(const Request&)> read) {
  routes.add({.method = "GET",
              .pattern = pattern,
              .role = ServerRole::viewer,
              .handler = std::move(read)});
}

}  // namespace dovetail::server::api
