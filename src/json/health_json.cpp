#include "json/to_json.hpp"

namespace dovetail::json {
namespace {

double fractional_milliseconds(std::chrono::microseconds time) {
  return std::chrono::duration<double, std::milli>{time}.count();
}

}  // namespace

nlohmann::ordered_json to_json(const HealthCheck& check) {
  auto data = nlohmann::ordered_json::object();
  for (const auto& [name, value] : check.data) data[name] = value;
  return {{"name", check.name},
          {"status", std::string{to_string(check.status)}},
          {"duration_ms", fractional_milliseconds(check.duration)},
          {"description", check.description},
          {"data", std::move(data)},
          {"tags", check.tags}};
}

nlohmann::ordered_json to_json(const HealthReport& report) {
  return {{"status", std::string{to_string(report.status)}},
          {"checks", to_json_array(report.checks)},
          {"total_duration_ms", fractional_milliseconds(report.total_duration)}};
}

}  // namespace dovetail::json
