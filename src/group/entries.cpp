#include "group/entries.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "core/text.hpp"
#include "dovetail/clock.hpp"
#include "runtime/engines.hpp"

namespace dovetail::group {
namespace {

constexpr std::size_t longest_key = 200;

bool is_control(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x20 || byte == 0x7F) return true;
  // U+0080 to U+009F
  return byte == 0xC2 && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xA0;
}

/// The key as shown in errors: a bad key may contain any bytes.
std::string quoted_key(std::string_view key) {
  auto text = core::printable(core::trimmed(key, longest_key));
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_control(text, i)) text[i] = '?';
  }
  return '"' + core::printable(text) + '"';
}

void check_key(std::string_view key) {
  const auto length = core::utf8_length(key);
  if (!length) {
    throw std::invalid_argument("the key " + quoted_key(key) + " is not UTF-8 without NUL");
  }
  if (*length < 1 || *length > longest_key) {
    throw std::invalid_argument("a key has 1 to " + std::to_string(longest_key) +
                                " characters, and " + quoted_key(key) + " has " +
                                std::to_string(*length));
  }
  for (std::size_t i = 0; i < key.size(); ++i) {
    if (is_control(key, i)) {
      throw std::invalid_argument("the key " + quoted_key(key) + " contains a control character");
    }
  }
}

/// Parses the URL, and does not connect.
std::unique_ptr<storage::Database> unconnected(const DatabaseEntry& entry) {
  storage::DatabaseOptions options{.clock = system_clock()};
  if (!entry.schema.empty()) options.schema = entry.schema;
  return runtime::open_database(entry.url, std::move(options));
}

/// The addresses without duplicates, such as "a and b".
std::string all_addresses(const std::vector<DatabaseEntry>& entries) {
  std::vector<std::string> addresses;
  for (const auto& entry : entries) {
    auto address = address_of(entry);
    if (std::ranges::find(addresses, address) == addresses.end()) {
      addresses.push_back(std::move(address));
    }
  }
  if (addresses.size() == 1) return addresses[0] + " (in parts that are not shown)";
  std::string text;
  for (const auto& address : addresses) text += (text.empty() ? "" : " and ") + address;
  return text;
}

}  // namespace

void check_entry(const DatabaseEntry& entry) {
  if (entry.key.empty() && !entry.error.empty()) throw std::invalid_argument(entry.error);
  check_key(entry.key);
  try {
    if (!entry.error.empty()) throw std::invalid_argument(entry.error);
    if (!entry.schema.empty()) core::require_identifier("schema", entry.schema);
    (void)unconnected(entry);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("the database " + quoted_key(entry.key) + ": " + error.what());
  }
}

std::string address_of(const DatabaseEntry& entry) {
  const auto name = unconnected(entry)->name();
  return entry.schema.empty() ? name : name + " with the schema " + entry.schema;
}

CheckedEntries checked_entries(std::vector<DatabaseEntry> entries) {
  CheckedEntries checked;
  std::map<std::string, std::vector<DatabaseEntry>, std::less<>> by_key;
  std::vector<std::string> keys;
  for (auto& entry : entries) {
    try {
      check_entry(entry);
    } catch (const std::invalid_argument& error) {
      checked.complaints.emplace_back(error.what());
      continue;
    }
    auto& same = by_key[entry.key];
    if (same.empty()) keys.push_back(entry.key);
    if (std::ranges::find(same, entry) == same.end()) same.push_back(std::move(entry));
  }
  for (const auto& key : keys) {
    auto& same = by_key[key];
    if (same.size() == 1) {
      checked.good.push_back(std::move(same[0]));
    } else {
      checked.complaints.push_back("the key " + quoted_key(key) + " has different addresses: " +
                                   all_addresses(same) + ". None is used: remove all but one");
    }
  }
  return checked;
}

}  // namespace dovetail::group
