#include "transport/kind.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <utility>

#include "dovetail/error.hpp"

namespace dovetail::transport {
namespace {

using std::chrono::milliseconds;

std::vector<Kind>& registered() {
  static std::vector<Kind> all;
  return all;
}

std::string_view scheme_of(std::string_view url) {
  const auto end = url.find(':');
  return end == std::string_view::npos ? std::string_view{} : url.substr(0, end);
}

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<milliseconds> duration_of(std::string_view text) {
  using Unit = std::pair<std::string_view, std::int64_t>;
  constexpr std::array units{Unit{"ms", 1}, Unit{"s", 1'000}, Unit{"m", 60'000},
                             Unit{"h", 3'600'000}, Unit{"d", 86'400'000}};
  for (const auto& [unit, factor] : units) {
    if (!text.ends_with(unit)) continue;
    const auto number = number_of(text.substr(0, text.size() - unit.size()));
    if (number && *number >= 0 && *number <= INT64_MAX / factor) {
      return milliseconds{*number * factor};
    }
  }
  return std::nullopt;
}

}  // namespace

// --- settings

std::optional<std::string> Settings::find(std::string_view key) const {
  const auto found = values.find(key);
  if (found == values.end() || found->second.empty()) return std::nullopt;
  return found->second.front();
}

std::string Settings::text(std::string_view key, std::string fallback) const {
  return find(key).value_or(std::move(fallback));
}

std::vector<std::string> Settings::list(std::string_view key) const {
  const auto found = values.find(key);
  return found == values.end() ? std::vector<std::string>{} : found->second;
}

bool Settings::flag(std::string_view key, bool fallback) const {
  const auto given = find(key);
  if (!given) return fallback;
  if (*given != "true" && *given != "false") {
    throw std::invalid_argument(std::string{key} + " must be true or false, not " + *given);
  }
  return *given == "true";
}

std::int64_t Settings::number(std::string_view key, std::int64_t least, std::int64_t most,
                              std::int64_t fallback) const {
  const auto given = find(key);
  if (!given) return fallback;
  const auto value = number_of(*given);
  if (!value || *value < least || *value > most) {
    throw std::invalid_argument(std::string{key} + " must be " + std::to_string(least) + " to " +
                                std::to_string(most) + ", not " + *given);
  }
  return *value;
}

milliseconds Settings::duration(std::string_view key, milliseconds least, milliseconds most,
                                milliseconds fallback) const {
  const auto given = find(key);
  if (!given) return fallback;
  const auto value = duration_of(*given);
  if (!value || *value < least || *value > most) {
    throw std::invalid_argument(std::string{key} +
                                " must be a duration such as 500ms, 30s or 5m, "
                                "from " +
                                std::to_string(least.count()) + "ms to " +
                                std::to_string(most.count()) + "ms, not " + *given);
  }
  return *value;
}

// --- kinds

const Key* Kind::find(std::string_view key, Key::Place place) const {
  const auto found = std::ranges::find_if(
      keys, [&](const Key& each) { return each.name == key && each.place == place; });
  return found == keys.end() ? nullptr : &*found;
}

void add_kind(Kind kind) {
  for (const auto& other : registered()) {
    const bool shares = std::ranges::any_of(kind.schemes, [&](const std::string& scheme) {
      return std::ranges::find(other.schemes, scheme) != other.schemes.end();
    });
    if (shares || other.name == kind.name) {
      throw InvalidOperation("the transport " + kind.name + " is registered already");
    }
  }
  registered().push_back(std::move(kind));
}

std::vector<const Kind*> kinds() {
  std::vector<const Kind*> all;
  for (const auto& kind : registered()) all.push_back(&kind);
  std::ranges::sort(all, {}, [](const Kind* kind) { return kind->name; });
  return all;
}

const Kind& kind_of(std::string_view url) {
  std::string schemes;
  for (const auto* kind : kinds()) {
    for (const auto& scheme : kind->schemes) {
      if (scheme == scheme_of(url)) return *kind;
      schemes += (schemes.empty() ? "" : ", ") + scheme + "://";
    }
  }
  throw std::invalid_argument(schemes.empty() ? "this program was built without transports"
                                              : "the URL of a broker must begin with one of " +
                                                    schemes + ": got " + without_secrets(url));
}

std::string without_secrets(std::string_view url) {
  const auto scheme_end = url.find("://");
  if (scheme_end == std::string_view::npos) return std::string{url};
  const auto begin = scheme_end + 3;
  const auto host_end = url.find_first_of("/?#", begin);
  const auto at = url.substr(0, host_end).rfind('@');
  if (at == std::string_view::npos || at < begin) return std::string{url};
  const auto colon = url.substr(0, at).find(':', begin);
  const auto user = colon == std::string_view::npos ? at : colon;
  const auto password = colon == std::string_view::npos ? "" : ":***";
  return std::string{url.substr(0, user)} + password + std::string{url.substr(at)};
}

}  // namespace dovetail::transport
