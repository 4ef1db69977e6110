// The query and the body of a request, checked. Everything here throws std::invalid_argument with
// the name of the parameter, which becomes the answer 400.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/ids.hpp"
#include "server/api/api.hpp"

namespace dovetail::server::api {

/// The database that the request asks for. Throws Problem 404 for an unknown key, and 400 if the
/// request must name one.
[[nodiscard]] std::shared_ptr<Platform> database_of(const Api& api, const Request& request);

/// The queue that the request asks for: outbox (the default), inbox or timers.
[[nodiscard]] WorkQueue& queue_of(Platform& platform, const std::string& name);
[[nodiscard]] WorkQueue& queue_of(Platform& platform, const Request& request);

/// Rejects parameters of the query that the route does not have, and repeated ones.
void require_query(const Request& request, const std::set<std::string>& known);

[[nodiscard]] int limit_of(const Request& request, int otherwise = 100);
[[nodiscard]] bool flag_of(const Request& request, const std::string& name);
[[nodiscard]] std::optional<WallTime> time_of(const Request& request, const std::string& name);
[[nodiscard]] std::optional<std::int64_t> number_of(const Request& request,
                                                    const std::string& name);

/// A time such as 2026-01-31T09:30:00Z.
[[nodiscard]] WallTime parse_time(const std::string& name, const std::string& text);
[[nodiscard]] std::int64_t parse_number(const std::string& name, const std::string& text);

template <class Id>
[[nodiscard]] Id parse_id(const std::string& name, const std::string& text) {
  const auto id = Id::parse(text);
  if (!id) throw std::invalid_argument(name + " must be a UUID, got \"" + text + "\"");
  return *id;
}

/// A cursor is a JSON array in hexadecimal digits, so that it needs no escapes in a URL.
[[nodiscard]] std::string cursor_of(const nlohmann::json& values);
/// The values of the request's cursor, which must have this number of values. Absent: none.
[[nodiscard]] std::optional<nlohmann::json> cursor_values(const Request& request,
                                                          std::size_t values);
[[noreturn]] void reject_cursor();
[[nodiscard]] std::string cursor_text(const nlohmann::json& value);
[[nodiscard]] std::int64_t cursor_number(const nlohmann::json& value);
template <class Id>
[[nodiscard]] Id cursor_id(const nlohmann::json& value) {
  const auto id = Id::parse(cursor_text(value));
  if (!id) reject_cursor();
  return *id;
}

/// The fields of a JSON object. finish() rejects those that were not read.
class Body {
 public:
  /// An empty body is an object without fields.
  explicit Body(const std::string& text);
  explicit Body(nlohmann::json object, std::string path = {});

  [[nodiscard]] std::optional<std::string> text(const std::string& name);
  [[nodiscard]] std::string required_text(const std::string& name);
  /// A number, or a string of digits.
  [[nodiscard]] std::optional<std::int64_t> number(const std::string& name);
  [[nodiscard]] bool flag(const std::string& name);
  [[nodiscard]] std::optional<WallTime> time(const std::string& name);
  [[nodiscard]] std::vector<std::string> texts(const std::string& name);
  [[nodiscard]] std::map<std::string, std::string, std::less<>> text_map(const std::string& name);
  [[nodiscard]] std::optional<Body> object(const std::string& name);
  void finish() const;

 private:
  [[nodiscard]] const nlohmann::json* value(const std::string& name);

  nlohmann::json object_;
  std::string path_;
  std::set<std::string> read_;
};

}  // namespace dovetail::server::api
