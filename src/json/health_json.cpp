#include "json/to_json.hpp"

namespace dovetail::json {

nlohmann::ordered_json to_json(const HealthFinding& finding) {
  return {{"name", finding.name},
          {"status", std::string{to_string(finding.status)}},
          {"message", finding.message}};
}

nlohmann::ordered_json to_json(const HealthReport& report) {
  return {{"status", std::string{to_string(report.status)}},
          {"findings", to_json_array(report.findings)}};
}

}  // namespace dovetail::json
