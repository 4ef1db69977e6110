#include "dovetail/time_zone.hpp"

#include <date/tz.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "core/posix_zone.hpp"
#include "core/text.hpp"

namespace dovetail {
namespace {

using namespace std::chrono_literals;
using std::chrono::seconds;

constexpr WallTime earliest_zoned = std::chrono::sys_days{std::chrono::year{1} / 1 / 1};
constexpr WallTime latest_zoned = std::chrono::sys_days{std::chrono::year{10'000} / 1 / 1} - 1us;
/// No zone is or was further from UTC.
constexpr seconds widest_offset = 24h;

void require_instant(WallTime time) {
  if (time < earliest_zoned || time > latest_zoned) {
    throw std::out_of_range("an instant for a time zone must be in the years 1 to 9999");
  }
}

void require_local(LocalTime local) {
  // Whole seconds have a greater range than microseconds.
  constexpr auto low = std::chrono::floor<seconds>(earliest_zoned) - widest_offset;
  constexpr auto high = std::chrono::floor<seconds>(latest_zoned) + widest_offset;
  if (local.time_since_epoch() < low.time_since_epoch() ||
      local.time_since_epoch() > high.time_since_epoch()) {
    throw std::out_of_range("a local time for a time zone must be in the years 1 to 9999");
  }
}

ZonePeriod period_of(const date::sys_info& info) {
  return {std::max<WallTime>(info.begin, earliest_zoned),
          std::min<WallTime>(info.end, latest_zoned + 1us), info.offset};
}

[[noreturn]] void fail_database(const std::string& why) {
  throw std::runtime_error("time zones cannot be used: " + why +
                           "; install the time zone files (on Debian: apt-get install tzdata)");
}

const std::vector<date::time_zone>& known_zones() {
  try {
    const auto& zones = date::get_tzdb().zones;
    if (!zones.empty()) return zones;
  } catch (const std::runtime_error&) {
    // The directory of the zone files is missing, too.
  }
  fail_database("no time zone files were found in /usr/share/zoneinfo");
}

const date::time_zone* zone_named(std::string_view name) {
  const auto& zones = known_zones();
  const auto zone = std::ranges::lower_bound(zones, name, {}, &date::time_zone::name);
  return zone != zones.end() && zone->name() == name ? &*zone : nullptr;
}

/// The date library reads the file of a zone at the first query. This makes it read the file now,
/// and not when the first job is due.
void require_readable(const date::time_zone& zone) {
  try {
    (void)zone.get_info(date::sys_days{date::year{2015} / 1 / 1});
  } catch (const std::exception&) {
    fail_database("the file of " + zone.name() + " is damaged");
  }
}

/// Whether `name` has only the characters of zone names. The directory contains other files, too.
bool may_be_a_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '/' || c == '+' || c == '-';
  };
  // `localtime` is the setting of this machine. On another machine it means something else.
  return !name.empty() && name != "localtime" && std::ranges::all_of(name, allowed);
}

}  // namespace

/// `zone` belongs to the library's database, which lives as long as the process. UTC has none.
struct TimeZone::Rules {
  std::string name;
  const date::time_zone* zone = nullptr;
  std::optional<core::PosixZone>
      rule{};  ///< Of the time from `rule_from` on, if clocks change there.
  WallTime rule_from = WallTime::max();

  [[nodiscard]] ZonePeriod period_at(WallTime time) const;
  [[nodiscard]] LocalInstants by_rule(LocalTime local) const;
};

namespace {

/// The rule at the end of the zone's file, which the date library does not read. Without it, clocks
/// would never change after the last change that the file lists: that is in 2037, or (files of the
/// short form, `zic -b slim`) years ago.
std::optional<core::PosixZone> rule_of(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, std::optional<core::PosixZone>> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  const auto text = core::zone_file_rule("/usr/share/zoneinfo/" + name);
  return known[name] = text ? core::PosixZone::parse(*text) : std::nullopt;
}

}  // namespace

TimeZone TimeZone::utc() {
  static const TimeZone zone{std::make_shared<const Rules>(Rules{"UTC"})};
  return zone;
}

TimeZone TimeZone::find(std::string_view iana_name) {
  if (iana_name == "UTC") return utc();
  require_time_zone_database();
  const auto* zone = may_be_a_name(iana_name) ? zone_named(iana_name) : nullptr;
  if (zone == nullptr) {
    throw std::invalid_argument(
        "unknown time zone \"" + core::printable(core::trimmed(iana_name, 60)) +
        "\": expected an IANA name such as Europe/Berlin, America/New_York or UTC");
  }
  require_readable(*zone);
  Rules rules{zone->name(), zone, rule_of(zone->name())};
  if (rules.rule)
    rules.rule_from = period_of(zone->get_info(std::chrono::floor<seconds>(latest_zoned))).begin;
  return TimeZone{std::make_shared<const Rules>(std::move(rules))};
}

const std::string& TimeZone::name() const {
  return rules_->name;
}

ZonePeriod TimeZone::Rules::period_at(WallTime time) const {
  if (zone == nullptr) return {earliest_zoned, latest_zoned + 1us, 0s};
  if (time < rule_from) return period_of(zone->get_info(std::chrono::floor<seconds>(time)));
  const auto period = rule->period_at(std::chrono::floor<seconds>(time));
  return {std::max<WallTime>(period.begin, rule_from),
          std::min<WallTime>(period.end, latest_zoned + 1us), period.offset};
}

ZonePeriod TimeZone::period_at(WallTime time) const {
  require_instant(time);
  return rules_->period_at(time);
}

/// The rule changes at most once between the two instants.
LocalInstants TimeZone::Rules::by_rule(LocalTime local) const {
  using Kind = LocalInstants::Kind;
  const WallTime near = std::chrono::sys_seconds{local.time_since_epoch()};
  const auto before = period_at(near - widest_offset);
  const auto after = period_at(std::min(near + widest_offset, latest_zoned));
  const WallTime first = near - before.offset;
  const WallTime second = near - after.offset;
  if (before.offset == after.offset) return {Kind::once, first, first};
  const bool is_before = first < before.end;
  const bool is_after = second >= before.end;
  if (is_before && is_after) return {Kind::twice, first, second};
  if (is_before) return {Kind::once, first, first};
  if (is_after) return {Kind::once, second, second};
  return {Kind::skipped, before.end, before.end};
}

LocalTime TimeZone::to_local(WallTime time) const {
  const auto offset = period_at(time).offset;
  return LocalTime{std::chrono::floor<seconds>(time).time_since_epoch() + offset};
}

LocalInstants TimeZone::instants_of(LocalTime local) const {
  using Kind = LocalInstants::Kind;
  require_local(local);
  const auto with_offset = [&](seconds offset) {
    return WallTime{std::chrono::sys_seconds{local.time_since_epoch() - offset}};
  };
  if (rules_->zone == nullptr) return {Kind::once, with_offset(0s), with_offset(0s)};
  const std::chrono::sys_seconds near{local.time_since_epoch()};
  if (rules_->rule && near - 2 * widest_offset >= rules_->rule_from && near <= latest_zoned) {
    return rules_->by_rule(local);
  }
  const auto info = rules_->zone->get_info(date::local_seconds{local.time_since_epoch()});
  const auto first = with_offset(info.first.offset);
  if (info.result == date::local_info::unique) return {Kind::once, first, first};
  if (info.result == date::local_info::nonexistent)
    return {Kind::skipped, info.first.end, info.first.end};
  return {Kind::twice, first, with_offset(info.second.offset)};
}

void require_time_zone_database() {
  [[maybe_unused]] static const bool checked = [] {
    const auto* new_york = zone_named("America/New_York");
    if (new_york == nullptr)
      fail_database("the one of America/New_York, and perhaps more, is missing");
    require_readable(*new_york);
    return true;
  }();
}

}  // namespace dovetail
