#include "transport/cloud_events.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>

namespace dovetail::transport {
namespace {

constexpr std::string_view hex_digits = "0123456789ABCDEF";

char lower_case(char each) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
}

bool is_plain_value(char each) {
  return each > ' ' && each < 0x7F && each != '"' && each != '%';
}

/// The characters of a token of HTTP, without the percent sign.
bool is_plain_name(char each) {
  return std::isalnum(static_cast<unsigned char>(each)) != 0 ||
         std::string_view{"!#$&'*+-.^_`|~"}.find(each) != std::string_view::npos;
}

template <class Plain>
std::string encoded(std::string_view text, const Plain& plain) {
  std::string result;
  result.reserve(text.size());
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    if (plain(each)) {
      result += each;
    } else {
      result += {'%', hex_digits[byte >> 4U], hex_digits[byte & 0xFU]};
    }
  }
  return result;
}

int digit_of(char each) {
  const auto place =
      hex_digits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(each))));
  return place == std::string_view::npos ? -1 : static_cast<int>(place);
}

/// The name without the prefix in lower case, or an empty text without the prefix.
std::string attribute_of(std::string_view name, std::string_view prefix) {
  if (name.size() <= prefix.size()) return {};
  const auto same = [](char a, char b) { return lower_case(a) == lower_case(b); };
  if (!std::ranges::equal(name.substr(0, prefix.size()), prefix, same)) return {};
  std::string attribute{name.substr(prefix.size())};
  std::ranges::transform(attribute, attribute.begin(), lower_case);
  return attribute;
}

/// Takes an attribute. Returns false if it is none that a message has.
bool take(const std::string& attribute, std::string value, IncomingMessage& message) {
  if (attribute == "id") {
    message.id = std::move(value);
  } else if (attribute == "type") {
    message.topic = std::move(value);
  } else if (attribute == "partitionkey") {
    message.stream = std::move(value);
  } else if (attribute == "correlationid") {
    message.correlation_id = std::move(value);
  } else if (attribute == "specversion") {
    if (!value.starts_with("1.")) {
      message.problem = "the version " + value + " of CloudEvents is not supported";
    }
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::string encoded_value(std::string_view text) {
  return encoded(text, is_plain_value);
}

std::string encoded_name(std::string_view text) {
  return encoded(text, is_plain_name);
}

std::string decoded(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_code = text[i] == '%' && i + 2 < text.size() && digit_of(text[i + 1]) >= 0 &&
                         digit_of(text[i + 2]) >= 0;
    if (!is_code) {
      result += text[i];
      continue;
    }
    result += static_cast<char>(digit_of(text[i + 1]) * 16 + digit_of(text[i + 2]));
    i += 2;
  }
  return result;
}

Headers cloud_event_headers(const Message& message, std::string_view source,
                            const HeaderRules& rules) {
  Headers headers;
  const auto add = [&](const char* attribute, std::string_view value) {
    headers[rules.prefix + attribute] =
        rules.percent_encode ? encoded_value(value) : std::string{value};
  };
  add("specversion", "1.0");
  add("id", message.id.to_string());
  add("type", message.topic);
  add("source", source);
  add("time", to_string(message.created_at));
  if (message.stream) add("partitionkey", *message.stream);
  if (message.correlation_id) add("correlationid", *message.correlation_id);
  for (const auto& [name, value] : message.headers) {
    if (rules.percent_encode) {
      headers.try_emplace(encoded_name(name), encoded_value(value));
    } else {
      headers.try_emplace(name, value);
    }
  }
  return headers;
}

bool read_cloud_event(const Headers& headers, IncomingMessage& message, const HeaderRules& rules) {
  const bool is_event = std::ranges::any_of(headers, [&](const auto& header) {
    return attribute_of(header.first, rules.prefix) == "specversion";
  });
  for (const auto& [name, value] : headers) {
    const auto attribute = is_event ? attribute_of(name, rules.prefix) : std::string{};
    auto text = rules.percent_encode ? decoded(value) : value;
    if (!attribute.empty() && take(attribute, text, message)) continue;
    message.headers.insert_or_assign(rules.percent_encode ? decoded(name) : name, std::move(text));
  }
  return is_event;
}

std::string filled(std::string_view pattern, const Message& message) {
  std::string result;
  while (!pattern.empty()) {
    const auto brace = pattern.find_first_of("{}");
    result += pattern.substr(0, brace);
    if (brace == std::string_view::npos) break;
    const auto end = pattern.find('}', brace);
    const auto name = end == std::string_view::npos || pattern[brace] == '}'
                          ? std::string_view{}
                          : pattern.substr(brace + 1, end - brace - 1);
    if (name == "topic") {
      result += message.topic;
    } else if (name == "stream") {
      result += message.stream.value_or("");
    } else if (name == "correlation_id") {
      result += message.correlation_id.value_or("");
    } else {
      throw std::invalid_argument("a template may contain {topic}, {stream} and {correlation_id}");
    }
    pattern.remove_prefix(end + 1);
  }
  return result;
}

}  // namespace dovetail::transport
