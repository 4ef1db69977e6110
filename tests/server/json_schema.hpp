// Checks JSON against the part of JSON Schema that openapi.json uses.
#pragma once

#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

namespace dovetail::testing {

class JsonSchema {
 public:
  explicit JsonSchema(nlohmann::json document) : document_(std::move(document)) {}

  /// One line for each violation.
  [[nodiscard]] std::vector<std::string> violations(const nlohmann::json& schema,
                                                    const nlohmann::json& value) const {
    std::vector<std::string> found;
    check(schema, value, "$", found);
    return found;
  }

  /// The thing that a `$ref` names, or the value itself.
  [[nodiscard]] const nlohmann::json& resolved(const nlohmann::json& value) const {
    if (!value.contains("$ref")) return value;
    return document_.at(
        nlohmann::json::json_pointer(value.at("$ref").get<std::string>().substr(1)));
  }
  [[nodiscard]] const nlohmann::json& document() const { return document_; }

 private:
  using Found = std::vector<std::string>;

  static std::string type_of(const nlohmann::json& value) {
    if (value.is_number_integer()) return "integer";
    return value.is_number() ? "number" : value.type_name();
  }

  static bool has_type(const nlohmann::json& types, const std::string& type) {
    if (types.is_string()) return types == type;
    return std::ranges::find(types, nlohmann::json(type)) != types.end();
  }

  void check(const nlohmann::json& unresolved, const nlohmann::json& value, const std::string& path,
             Found& found) const {
    const auto& schema = resolved(unresolved);
    const auto type = type_of(value);
    if (schema.contains("type") && !has_type(schema["type"], type)) {
      found.push_back(path + " is " + type + ", not " + schema["type"].dump());
      return;
    }
    if (schema.contains("enum") && std::ranges::find(schema["enum"], value) == schema["enum"].end())
      found.push_back(path + " is " + value.dump() + ", not one of " + schema["enum"].dump());
    if (value.is_string()) check_text(schema, value.get<std::string>(), path, found);
    if (value.is_object()) check_object(schema, value, path, found);
    if (value.is_array() && schema.contains("items")) {
      for (std::size_t i = 0; i < value.size(); ++i)
        check(schema["items"], value[i], path + "[" + std::to_string(i) + "]", found);
    }
  }

  static void check_text(const nlohmann::json& schema, const std::string& text,
                         const std::string& path, Found& found) {
    static const std::regex uuid("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}");
    static const std::regex time(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z)");
    const auto format = schema.value("format", "");
    if (format == "uuid" && !std::regex_match(text, uuid))
      found.push_back(path + " is no UUID: " + text);
    if (format == "date-time" && !std::regex_match(text, time))
      found.push_back(path + " is no time: " + text);
    if (schema.contains("pattern") &&
        !std::regex_search(text, std::regex(schema["pattern"].get<std::string>())))
      found.push_back(path + " does not match: " + text);
  }

  void check_object(const nlohmann::json& schema, const nlohmann::json& value,
                    const std::string& path, Found& found) const {
    for (const auto& name : schema.value("required", nlohmann::json::array())) {
      if (!value.contains(name.get<std::string>()))
        found.push_back(path + " has no " + name.get<std::string>());
    }
    const auto properties = schema.value("properties", nlohmann::json::object());
    for (const auto& [name, each] : value.items()) {
      const auto& others = schema.value("additionalProperties", nlohmann::json(true));
      if (properties.contains(name)) {
        check(properties[name], each, path + "." + name, found);
      } else if (others == nlohmann::json(false)) {
        found.push_back(path + " has an unknown field " + name);
      } else if (others.is_object()) {
        check(others, each, path + "." + name, found);
      }
    }
  }

  nlohmann::json document_;
};

}  // namespace dovetail::testing
