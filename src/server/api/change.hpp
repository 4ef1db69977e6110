// Changes: routes that write. Each one is recorded in the audit before its answer.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "server/api/answer.hpp"
#include "server/api/input.hpp"

namespace dovetail::server::api {

/// What a change did.
struct Changed {
  ordered_json answer{};
  std::optional<std::int64_t> count{};
  int status = 200;
};

/// One change under way. The handler describes it, and then makes it.
class Change {
 public:
  Change(const Api& api, const Request& request, std::string action);

  [[nodiscard]] Platform& platform() { return *platform_; }
  [[nodiscard]] Body& body() { return body_; }
  [[nodiscard]] const Request& request() const { return request_; }
  /// Who makes the change, for the audit.
  [[nodiscard]] std::string actor() const;
  /// What is changed, and with which arguments, for the audit.
  void describe(std::string target, const ordered_json& detail = nullptr);

  /// Makes the change, then records it. A change that throws is recorded with its error.
  Response make(const std::function<Changed()>& change);
  /// Makes and records the change in one transaction.
  Response make_in_transaction(const std::function<Changed(Transaction& transaction)>& change);

 private:
  [[nodiscard]] AuditRecord record_of(std::optional<std::int64_t> count) const;
  void record_failure(const std::string& error);

  const Request& request_;
  std::string action_;
  Body body_;
  std::shared_ptr<Platform> platform_;
  std::string target_;
  std::string detail_;
};

using ChangeFunction = std::function<Response(Change& change)>;

/// A route that writes.
struct ChangeRoute {
  std::string method = "POST";
  std::string pattern{};
  ServerRole role = ServerRole::operator_;
  std::string action{};  ///< Its name in the audit.
  ChangeFunction handler{};
};

void add_change(RouteTable& routes, const Api& api, ChangeRoute route);

/// A route that reads: it answers what `read` returns.
void add_read(RouteTable& routes, const std::string& pattern,
              std::function<Response(const Request&)> read);

}  // namespace dovetail::server::api
