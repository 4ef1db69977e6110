#include "config/setting.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>

#include "core/assert.hpp"

namespace dovetail::config {
namespace {

constexpr const char* mask = "***";

/// Parameters of libpq that are not secret. All others are hidden.
constexpr std::array<std::string_view, 24> shown_parameters{"application_name",
                                                            "channel_binding",
                                                            "client_encoding",
                                                            "connect_timeout",
                                                            "dbname",
                                                            "gssencmode",
                                                            "host",
                                                            "hostaddr",
                                                            "keepalives",
                                                            "keepalives_count",
                                                            "keepalives_idle",
                                                            "keepalives_interval",
                                                            "load_balance_hosts",
                                                            "options",
                                                            "port",
                                                            "sslcert",
                                                            "sslcompression",
                                                            "sslcrl",
                                                            "sslmode",
                                                            "sslrootcert",
                                                            "ssl_min_protocol_version",
                                                            "target_session_attrs",
                                                            "tcp_user_timeout",
                                                            "user"};

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string trimmed_blanks(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::vector<std::string> parse_list(std::string_view text) {
  std::vector<std::string> list;
  for (const auto& each : split(text, ',')) {
    list.push_back(trimmed_blanks(each));
    if (list.back().empty()) throw std::invalid_argument("texts that are separated by commas");
  }
  return list;
}

std::string masked_parameters(std::string_view query) {
  std::string text;
  for (const auto& each : split(query, '&')) {
    const auto name = each.substr(0, each.find('='));
    const bool is_shown = std::ranges::find(shown_parameters, name) != shown_parameters.end();
    text += (text.empty() ? "" : "&") + (is_shown ? each : name + "=" + mask);
  }
  return text;
}

/// `user:password@`, hidden after the first colon.
std::string masked_user(std::string_view user) {
  const auto colon = user.find(':');
  if (colon == std::string_view::npos) return std::string{user};
  return std::string{user.substr(0, colon + 1)} + mask + "@";
}

}  // namespace

std::string Setting::section_of(const std::string& entry) const {
  const auto star = section.find('*');
  return star == std::string::npos || entry.empty() ? section : section.substr(0, star) + entry;
}

const Setting& setting(const std::string& name) {
  const auto found =
      std::ranges::find(table(), name, [](const Setting& each) { return each.name(); });
  DOVETAIL_ASSERT(found != table().end());
  return *found;
}

std::vector<Place> places_in(const Settings& settings) {
  std::vector<Place> places;
  const auto all = table();
  for (auto begin = all.begin(); begin != all.end();) {
    const auto end = std::find_if(
        begin, all.end(), [&](const Setting& each) { return each.section != begin->section; });
    const auto entries =
        begin->entries ? begin->entries(settings) : std::vector<std::string>{std::string{}};
    for (const auto& entry : entries) {
      for (auto each = begin; each != end; ++each) places.push_back({&*each, entry});
    }
    begin = end;
  }
  return places;
}

std::string Setting::allowed() const {
  const auto text = [this](std::int64_t number) {
    auto shown_number = toml_text(kind, number);
    std::erase(shown_number, '"');
    return shown_number;
  };
  if (kind == Kind::boolean) return "true or false";
  if (kind == Kind::word) {
    std::string list;
    for (std::size_t i = 0; i < words.size(); ++i)
      list += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + toml_string(words[i]);
    return list;
  }
  if (kind == Kind::limit) return "a number, or \"never\"";
  if (kind == Kind::number || kind == Kind::size || kind == Kind::duration)
    return text(range.least) + " to " + text(range.most);
  return kind == Kind::list ? "texts" : std::string{to_string(kind)};
}

void Setting::check(const Value& value) const {
  const auto* number = std::get_if<std::int64_t>(&value);
  if (number != nullptr && (*number < range.least || *number > range.most))
    throw std::invalid_argument(allowed());
  if (number != nullptr && whole_seconds && *number % 1'000 != 0)
    throw std::invalid_argument("a number of whole seconds");
  if (rule) rule(std::get<std::string>(value));
  if (kind != Kind::word) return;
  if (std::ranges::find(words, std::get<std::string>(value)) == words.end())
    throw std::invalid_argument(allowed());
}

Value Setting::parse(std::string_view text) const {
  switch (kind) {
    case Kind::boolean:
      return parse_boolean(text);
    case Kind::number:
      return parse_number(text);
    case Kind::limit:
      return parse_limit(text);
    case Kind::size:
      return parse_size(text);
    case Kind::duration:
      return parse_duration(text).count();
    case Kind::list:
      return parse_list(text);
    case Kind::text:
    case Kind::path:
    case Kind::word:
      break;
  }
  return std::string{text};
}

std::string Setting::shown(const Value& value) const {
  if (secret == Secret::none) return toml_text(kind, value);
  if (secret == Secret::url) return toml_string(masked_url(std::get<std::string>(value)));
  return toml_string(mask);
}

std::string variable_of(const Setting& setting) {
  std::string name = "DOVETAIL_";
  for (const char c : setting.section + "__" + setting.key)
    name += c == '.' ? "__" : std::string(1, static_cast<char>(std::toupper(c)));
  return name;
}

std::string masked_url(std::string_view url) {
  if (url.starts_with("sqlite:")) return std::string{url};
  const auto slashes = url.find("://");
  if (slashes == std::string_view::npos) return mask;
  const auto begin = slashes + 3;
  const auto scheme = std::string{url.substr(0, begin)};
  const auto path = std::min(url.find_first_of("/?#", begin), url.size());
  const auto query = std::min(url.find('?', path), url.size());
  // A password with characters that must be encoded may reach into the path.
  if (url.find('@', path) != std::string_view::npos) return scheme + mask;
  const auto authority = url.substr(begin, path - begin);
  const auto at = authority.rfind('@');
  const auto host = at == std::string_view::npos ? 0 : at + 1;
  auto text = scheme + masked_user(authority.substr(0, host));
  text += authority.substr(host);
  text += url.substr(path, query - path);
  if (query < url.size()) text += "?" + masked_parameters(url.substr(query + 1));
  return text;
}

}  // namespace dovetail::config
