// One service, a database per tenant: a control database lists the tenants, one handler serves all
// of them, and each order is stored in its tenant's database. A tenant is added while it runs.
//
//   multi_tenant
#include <dovetail/dovetail.hpp>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <string>

namespace {

using namespace std::chrono_literals;

struct Order {
  int id;
  std::string item;
};

/// The control database: the service's own list of its tenants.
class TenantList {
 public:
  explicit TenantList(std::filesystem::path directory)
      : directory_(std::move(directory)),
        url_("sqlite:" + (directory_ / "control.db").string()),
        control_(dovetail::Platform::open(url_, {.deploy_schema = true})) {
    auto tx = control_.begin();
    tx.execute("create table tenants (id text primary key, url text not null)");
    tx.commit();
  }

  [[nodiscard]] const std::string& url() const { return url_; }

  void add(const std::string& tenant) {
    const auto url = "sqlite:" + (directory_ / (tenant + ".db")).string();
    auto platform = dovetail::Platform::open(url, {.deploy_schema = true});
    auto setup = platform.begin();
    setup.execute("create table orders (id integer primary key, item text, confirmed integer)");
    setup.commit();
    auto tx = control_.begin();
    tx.execute("insert into tenants (id, url) values ($1, $2)", tenant, url);
    tx.commit();
  }

 private:
  std::filesystem::path directory_;
  std::string url_;
  dovetail::Platform control_;
};

/// Stores the order and its message in the database of the tenant, in one transaction.
class OrderService {
 public:
  explicit OrderService(dovetail::PlatformGroup& group) : group_(group) {}

  void create_order(const std::string& tenant, const Order& order) {
    // Throws InvalidOperation for an unknown tenant. If the tenant is removed meanwhile, the next
    // call of `platform` throws it, and the transaction is rolled back.
    auto& platform = group_[tenant];
    auto tx = platform.begin();
    tx.execute("insert into orders (id, item, confirmed) values ($1, $2, 0)", order.id, order.item);
    platform.outbox().enqueue(tx, {.topic = "order.created",
                                   .payload = std::to_string(order.id),
                                   .correlation_id = std::to_string(order.id)});
    tx.commit();
  }

  /// The number of confirmed orders of the tenant.
  [[nodiscard]] std::int64_t confirmed(const std::string& tenant) {
    auto tx = group_[tenant].begin();
    return tx.query("select sum(confirmed) from orders").at(0).get<std::int64_t>(0);
  }

 private:
  dovetail::PlatformGroup& group_;
};

int run(const std::filesystem::path& directory) {
  TenantList tenants(directory);
  tenants.add("acme");
  tenants.add("globex");

  dovetail::PlatformGroup group(
      dovetail::query_discovery(tenants.url(), "select id, url from tenants order by id"),
      {.selection = dovetail::round_robin()}, {.refresh = 5min});
  std::atomic<int> handled{0};
  group.on(
      "order.created", [&](const dovetail::Message& message, dovetail::HandlerContext& context) {
        // The transaction of the tenant's database; it commits together with the ack.
        context.transaction().execute("update orders set confirmed = confirmed + 1 where id = $1",
                                      std::stoll(message.payload));
        ++handled;
        handled.notify_one();
      });
  group.start();
  const auto wait_until_handled = [&](int count) {
    for (int now = handled; now < count; now = handled) handled.wait(now);
  };

  OrderService orders(group);
  orders.create_order("acme", {.id = 1, .item = "a chisel"});
  orders.create_order("acme", {.id = 2, .item = "a mallet"});
  orders.create_order("globex", {.id = 1, .item = "a saw"});
  wait_until_handled(3);

  tenants.add("initech");
  group.refresh();  // or wait: the group repeats its discovery every five minutes
  orders.create_order("initech", {.id = 1, .item = "a plane"});
  wait_until_handled(4);

  group.stop();
  std::int64_t total = 0;
  for (const auto& tenant : group.keys()) {
    std::cout << tenant << ": " << orders.confirmed(tenant) << " confirmed\n";
    total += orders.confirmed(tenant);
  }
  return total == 4 ? 0 : 1;
}

}  // namespace

int main() {
  const std::filesystem::path directory = "multi_tenant_databases";
  std::filesystem::create_directory(directory);
  int code = 1;
  try {
    code = run(directory);
  } catch (const std::exception& error) {
    std::cerr << "multi_tenant: " << error.what() << "\n";
  }
  std::filesystem::remove_all(directory);
  return code;
}
