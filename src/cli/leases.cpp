#include <iostream>

#include "cli/group_list.hpp"
#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

using json::to_json_array;
using nlohmann::ordered_json;

constexpr int page_size = 1'000;

// --- list and release

std::vector<Lease> all_leases(Leases& leases) {
  std::vector<Lease> all;
  for (;;) {
    LeasePage page{.size = page_size};
    if (!all.empty()) {
      page.after_name = all.back().name;
      page.after_slot = all.back().slot;
    }
    const auto some = leases.list(page);
    all.insert(all.end(), some.begin(), some.end());
    if (some.size() < static_cast<std::size_t>(page_size)) return all;
  }
}

using ListedLeases = std::vector<Lease>;

std::vector<TableCells> lease_rows(const ListedLeases& leases) {
  std::vector<TableCells> rows;
  rows.reserve(leases.size());
  for (const auto& lease : leases) {
    rows.push_back({lease.name, lease.slot == 0 ? "-" : std::to_string(lease.slot), lease.owner,
                    std::to_string(lease.token), to_string(lease.expires_at),
                    to_string(lease.acquired_at)});
  }
  return rows;
}

void list_leases(const Globals& globals) {
  const auto ask = [](Platform& platform) { return all_leases(platform.leases()); };
  const auto form = [](const ListedLeases& leases) {
    return ordered_json{{"leases", to_json_array(leases)}};
  };
  print_list<ListedLeases>(globals, ask,
                           {{"NAME", "SLOT", "OWNER", "TOKEN", "EXPIRES AT", "ACQUIRED AT"},
                            lease_rows,
                            form,
                            "no leases are held"});
}

/// Releases the lease although the caller does not hold it. The next renewal of its holder fails.
void release(const Globals& globals, const std::string& name, int slot) {
  auto platform = globals.open();
  std::size_t count = 0;
  for (const auto& lease : all_leases(platform.leases())) {
    if (lease.name == name && lease.slot == slot && platform.leases().release(lease)) ++count;
  }
  print_effect(globals,
               {.word = "released", .count = count, .asked = 1, .why_not = "nobody holds " + name});
}

}  // namespace

void add_leases(CLI::App& app, Globals& globals) {
  auto& group = add_group(app, globals, "leases", "List leases, and force their release");
  auto& listing = add_command(group, globals, "list", "List all leases that are held",
                              [&globals] { list_leases(globals); });
  listing.add_flag("--json", globals.json, "Answer in JSON");
  allow_group(listing, globals);

  auto name = std::make_shared<std::string>();
  auto slot = std::make_shared<int>(0);
  auto& releasing = add_command(group, globals, "release", "Force the release of a lease",
                                [&globals, name, slot] { release(globals, *name, *slot); });
  releasing.add_option("NAME", *name, "The lease's name")->required();
  releasing.add_option("--slot", *slot, "The slot; 0: the lease without slots")
      ->capture_default_str();
  releasing.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace dovetail::cli
