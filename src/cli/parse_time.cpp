#include <date/date.h>

#include <sstream>

#include "cli/cli.hpp"

namespace dovetail::cli {

namespace {

std::optional<WallTime> time_of(const std::string& text) {
  for (const char* format : {"%FT%TZ", "%FT%T%Ez"}) {
    std::istringstream in{text};
    WallTime time{};
    in >> date::parse(format, time);
    if (in && in.peek() == std::char_traits<char>::eof()) return time;
  }
  return std::nullopt;
}

constexpr auto time_form =
    "must be a time such as 2026-01-31T09:30:00Z or 2026-01-31T10:30:00+01:00, got ";

}  // namespace

WallTime parse_time(const std::string& what, const std::string& text) {
  if (const auto time = time_of(text)) return *time;
  throw std::invalid_argument(what + " " + time_form + "\"" + text + "\"");
}

CLI::Validator time_rule() {
  const auto check = [](const std::string& text) -> std::string {
    return time_of(text) ? std::string{} : time_form + ("\"" + text + "\"");
  };
  return {check, {}};
}

std::optional<WallTime> parse_time_if_given(const std::string& what, const std::string& text) {
  if (text.empty()) return std::nullopt;
  return parse_time(what, text);
}

}  // namespace dovetail::cli
