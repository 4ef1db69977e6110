#include "server/api/input.hpp"

#include <charconv>
#include <stdexcept>

#include "server/problem.hpp"

namespace dovetail::server::api {
namespace {

constexpr int highest_limit = 1'000;
constexpr std::size_t longest_cursor = 4'096;

int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  reject_cursor();
}

std::string from_hex(std::string_view digits) {
  if (digits.size() % 2 != 0 || digits.size() > longest_cursor) reject_cursor();
  std::string text;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    text.push_back(static_cast<char>(hex_digit(digits[i]) * 16 + hex_digit(digits[i + 1])));
  return text;
}

}  // namespace

std::shared_ptr<Platform> database_of(const Api& api, const Request& request) {
  const auto key = request.query_value("database").value_or("");
  if (key.empty() && api.databases.is_group() && api.databases.keys().size() != 1) {
    throw Problem(400,
                  "database is missing: this server has several databases; add ?database=KEY "
                  "(GET /api/v1/databases lists the keys)");
  }
  auto platform = api.databases.find(key);
  if (!platform) throw Problem(404, "this server has no database \"" + key + "\"");
  return platform;
}

WorkQueue& queue_of(Platform& platform, const std::string& name) {
  if (name == "outbox") return platform.outbox();
  if (name == "inbox") return platform.inbox().queue();
  if (name == "timers") return platform.timers().queue();
  throw Problem(404, "there is no queue \"" + name + "\": the queues are outbox, inbox and timers");
}

WorkQueue& queue_of(Platform& platform, const Request& request) {
  return queue_of(platform, request.query_value("queue").value_or("outbox"));
}

void require_query(const Request& request, const std::set<std::string>& known) {
  for (const auto& [name, value] : request.query) {
    if (name != "database" && !known.contains(name)) {
      throw std::invalid_argument("this route has no parameter \"" + name + "\"");
    }
    if (request.query.count(name) > 1) throw std::invalid_argument(name + " must be given once");
  }
}

std::int64_t parse_number(const std::string& name, const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
    throw std::invalid_argument(name + " must be a whole number of 64 bits, got \"" + text + "\"");
  }
  return number;
}

int limit_of(const Request& request, int otherwise) {
  const auto text = request.query_value("limit");
  if (!text) return otherwise;
  const auto limit = parse_number("limit", *text);
  if (limit < 1 || limit > highest_limit) {
    throw std::invalid_argument("limit must be 1 to " + std::to_string(highest_limit) + ", got " +
                                *text);
  }
  return static_cast<int>(limit);
}

bool flag_of(const Request& request, const std::string& name) {
  const auto text = request.query_value(name).value_or("false");
  if (text != "true" && text != "false")
    throw std::invalid_argument(name + " must be true or false, got \"" + text + "\"");
  return text == "true";
}

std::optional<WallTime> time_of(const Request& request, const std::string& name) {
  const auto text = request.query_value(name);
  return text ? std::optional{parse_time(name, *text)} : std::nullopt;
}

std::optional<std::int64_t> number_of(const Request& request, const std::string& name) {
  const auto text = request.query_value(name);
  return text ? std::optional{parse_number(name, *text)} : std::nullopt;
}

// --- cursors

std::string cursor_of(const nlohmann::json& values) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string cursor;
  // Text of other programs may not be UTF-8.
  for (const char each : values.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)) {
    const auto byte = static_cast<unsigned char>(each);
    cursor.push_back(digits[byte / 16]);
    cursor.push_back(digits[byte % 16]);
  }
  return cursor;
}

void reject_cursor() {
  throw std::invalid_argument(
      "cursor is not one that this list has returned: begin again without a cursor");
}

std::optional<nlohmann::json> cursor_values(const Request& request, std::size_t values) {
  const auto cursor = request.query_value("cursor");
  if (!cursor) return std::nullopt;
  auto parsed = nlohmann::json::parse(from_hex(*cursor), nullptr, false);
  if (!parsed.is_array() || parsed.size() != values) reject_cursor();
  return parsed;
}

std::string cursor_text(const nlohmann::json& value) {
  if (!value.is_string()) reject_cursor();
  return value.get<std::string>();
}

std::int64_t cursor_number(const nlohmann::json& value) {
  if (!value.is_number_integer()) reject_cursor();
  return value.get<std::int64_t>();
}

// --- bodies

Body::Body(const std::string& text) {
  object_ = text.empty() ? nlohmann::json::object() : nlohmann::json::parse(text, nullptr, false);
  if (object_.is_discarded()) throw std::invalid_argument("the body is not valid JSON");
  if (!object_.is_object()) throw std::invalid_argument("the body must be a JSON object");
}

Body::Body(nlohmann::json object, std::string path)
    : object_(std::move(object)), path_(std::move(path)) {}

const nlohmann::json* Body::value(const std::string& name) {
  read_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> Body::text(const std::string& name) {
  const auto* found = value(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_string()) throw std::invalid_argument(path_ + name + " must be a string");
  return found->get<std::string>();
}

std::string Body::required_text(const std::string& name) {
  auto found = text(name);
  if (!found) throw std::invalid_argument(path_ + name + " is missing");
  return *found;
}

std::optional<std::int64_t> Body::number(const std::string& name) {
  const auto* found = value(name);
  if (found == nullptr) return std::nullopt;
  if (found->is_string()) return parse_number(path_ + name, found->get<std::string>());
  const bool fits = found->is_number_integer() &&
                    (!found->is_number_unsigned() ||
                     found->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX));
  if (!fits) throw std::invalid_argument(path_ + name + " must be a whole number of 64 bits");
  return found->get<std::int64_t>();
}

bool Body::flag(const std::string& name) {
  const auto* found = value(name);
  if (found == nullptr) return false;
  if (!found->is_boolean()) throw std::invalid_argument(path_ + name + " must be true or false");
  return found->get<bool>();
}

std::optional<WallTime> Body::time(const std::string& name) {
  const auto found = text(name);
  return found ? std::optional{parse_time(path_ + name, *found)} : std::nullopt;
}

std::vector<std::string> Body::texts(const std::string& name) {
  const auto* found = value(name);
  std::vector<std::string> all;
  if (found == nullptr) return all;
  if (!found->is_array())
    throw std::invalid_argument(path_ + name + " must be an array of strings");
  for (const auto& each : *found) {
    if (!each.is_string())
      throw std::invalid_argument(path_ + name + " must be an array of strings");
    all.push_back(each.get<std::string>());
  }
  return all;
}

std::map<std::string, std::string, std::less<>> Body::text_map(const std::string& name) {
  const auto* found = value(name);
  std::map<std::string, std::string, std::less<>> all;
  if (found == nullptr) return all;
  if (!found->is_object())
    throw std::invalid_argument(path_ + name + " must be an object of strings");
  for (const auto& [key, each] : found->items()) {
    if (!each.is_string())
      throw std::invalid_argument(path_ + name + " must be an object of strings");
    all.emplace(key, each.get<std::string>());
  }
  return all;
}

std::optional<Body> Body::object(const std::string& name) {
  const auto* found = value(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_object()) throw std::invalid_argument(path_ + name + " must be an object");
  return Body{*found, path_ + name + "."};
}

void Body::finish() const {
  for (const auto& [name, value] : object_.items()) {
    if (!read_.contains(name))
      throw std::invalid_argument("the body has an unknown field \"" + path_ + name + "\"");
  }
}

}  // namespace dovetail::server::api
