#include "core/headers.hpp"

#include <nlohmann/json.hpp>

namespace dovetail::core {

std::string to_json(const Headers& headers) {
  auto object = nlohmann::json::object();
  for (const auto& [name, value] : headers) object[name] = value;
  return object.dump();
}

Headers headers_from_json(std::string_view json) {
  Headers headers;
  const auto object = nlohmann::json::parse(json, nullptr, false);
  if (!object.is_object()) return headers;
  for (const auto& [name, value] : object.items()) {
    if (value.is_string()) headers.emplace(name, value.get<std::string>());
  }
  return headers;
}

std::string to_json(const std::set<std::string, std::less<>>& texts) {
  return nlohmann::json(texts).dump();
}

std::vector<std::string> texts_from_json(std::string_view json) {
  const auto array = nlohmann::json::parse(json, nullptr, false);
  std::vector<std::string> texts;
  if (!array.is_array()) return texts;
  for (const auto& text : array) {
    if (text.is_string()) texts.push_back(text.get<std::string>());
  }
  return texts;
}

}  // namespace dovetail::core
