package qiang.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Callable;
import qiang.client.ClaimResult.Granted;
import qiang.client.ClaimResult.Refused;
import qiang.client.ClaimResult.Waiting;
import qiang.client.model.Claim;
import qiang.client.model.Credentials;
import qiang.client.model.ListAllOrdersQuery;
import qiang.client.model.ListEventsQuery;
import qiang.client.model.ListOrdersQuery;
import qiang.client.model.ListPaymentsQuery;
import qiang.client.model.ListSalesQuery;
import qiang.client.model.MetadataChange;
import qiang.client.model.Money;
import qiang.client.model.NewCancellation;
import qiang.client.model.NewDeposit;
import qiang.client.model.NewOrder;
import qiang.client.model.NewPayment;
import qiang.client.model.NewRedPacket;
import qiang.client.model.NewRefund;
import qiang.client.model.NewSale;
import qiang.client.model.NewSplitRule;
import qiang.client.model.NewWebhook;
import qiang.client.model.Order;
import qiang.client.model.OrderState;
import qiang.client.model.Payment;
import qiang.client.model.PaymentOutcome;
import qiang.client.model.PaymentRecordOutcome;
import qiang.client.model.PaymentReport;
import qiang.client.model.Phase;
import qiang.client.model.PlaceState;
import qiang.client.model.ProblemType;
import qiang.client.model.RecordedEvent;
import qiang.client.model.RedPacket;
import qiang.client.model.RefusedOutcome;
import qiang.client.model.Requirement;
import qiang.client.model.Sale;
import qiang.client.model.SaleChange;
import qiang.client.model.SplitRuleName;
import qiang.client.model.Webhook;

/** The cases of clients/contract/cases.json with the client in Java. */
public final class Contract {
    private static final String DIRECT = System.getenv("QIANG_URL");
    private static final String PROXY = System.getenv("QIANG_PROXY");
    private static final String SELLER_SCOPES = "campaigns:write pay deposit send read:any admin";
    private static final Money PRICE = new Money(49_900, "CNY");
    private static final HttpClient HTTP = HttpClient.newHttpClient();

    private Contract() {}

    private interface Case {
        void run() throws Exception;
    }

    private interface Condition {
        boolean holds() throws Exception;
    }

    /** Runs all cases. */
    public static void main(String[] arguments) {
        Map<String, Case> cases = new LinkedHashMap<>();
        cases.put("claim", Contract::claim);
        cases.put("share", Contract::share);
        cases.put("replay", Contract::replay);
        cases.put("sold-out", Contract::soldOut);
        cases.put("throttled", Contract::throttled);
        cases.put("rate-limit", Contract::rateLimit);
        cases.put("lost-answer", Contract::lostAnswer);
        cases.put("lost-request", Contract::lostRequest);
        cases.put("late-answer", Contract::lateAnswer);
        cases.put("gave-up", Contract::gaveUp);
        cases.put("no-service", Contract::noService);
        cases.put("gateway", Contract::gateway);
        cases.put("paging", Contract::paging);
        cases.put("events", Contract::events);
        cases.put("webhook-signature", Contract::webhookSignature);
        cases.put("payment", Contract::payment);
        cases.put("cancel", Contract::cancel);
        cases.put("errors", Contract::errors);
        cases.put("new-words", Contract::newWords);
        cases.put("ticket", Contract::ticket);
        cases.put("queue", Contract::queue);
        cases.put("change", Contract::change);
        boolean failed = false;
        for (Map.Entry<String, Case> one : cases.entrySet()) {
            try {
                one.getValue().run();
                System.out.println("case " + one.getKey() + ": passed");
            } catch (Exception | AssertionError error) {
                failed = true;
                System.out.println("case " + one.getKey() + ": FAILED");
                error.printStackTrace(System.out);
            }
        }
        System.exit(failed ? 1 : 0);
    }

    private static void claim() throws Exception {
        Sale sale = sale(seller(), lamps());
        QiangClient ann = buyer("");
        Granted<Order> granted = granted(ann.order(sale.id(), new NewOrder().quantity(2)));
        Order order = granted.grant();
        check(!granted.isReplay() && order.id().startsWith(sale.id()), granted);
        check(order.state() == OrderState.HELD && order.quantity() == 2 && order.amount().amount() == 99_800, order);
        equal(ann.getOrder(order.id()).id(), order.id());
        equal(ann.getCampaignState(sale.id()).granted(), 2L);
    }

    private static void share() throws Exception {
        String sender = fresh("sender");
        QiangClient shop = client(sender, SELLER_SCOPES, "").build();
        shop.makeDeposit(sender, new NewDeposit(1000, "CNY", fresh("bank")));
        NewSplitRule split = new NewSplitRule(SplitRuleName.EQUAL);
        RedPacket packet = shop.createRedPacket(new NewRedPacket("恭喜", new Money(1000, "CNY"), 2, split));
        QiangClient ann = buyer("");
        Granted<Claim> first = granted(ann.claim(packet.id()));
        Granted<Claim> again = granted(ann.claim(packet.id(), new Credentials(), null));
        equal(first.grant().amount().amount(), 500L);
        equal(again.grant().id(), first.grant().id());
        check(!first.isReplay() && again.isReplay(), again);
    }

    private static void replay() throws Exception {
        Sale sale = sale(seller(), lamps());
        QiangClient ann = buyer("").withKey(fresh("key"));
        Granted<Order> first = granted(ann.order(sale.id()));
        Granted<Order> second = granted(ann.order(sale.id()));
        equal(first.grant().id(), second.grant().id());
        check(!first.isReplay() && second.isReplay(), second);
        equal(ann.getCampaignState(sale.id()).granted(), 1L);
        ProblemException reused = problem(() -> ann.order(sale.id(), new NewOrder().quantity(2)));
        check(reused.type() == ProblemType.KEY_REUSED && reused.problem().status() == 422, reused);
    }

    private static void soldOut() throws Exception {
        Sale sale = sale(seller(), lamps(1).perUserLimit(1));
        QiangClient ann = buyer("");
        granted(ann.order(sale.id()));
        Refused<Order> late = refused(buyer("").order(sale.id()));
        equal(late.outcome(), RefusedOutcome.SOLD_OUT);
        check(late.problem().type() == ProblemType.SOLD_OUT && late.problem().status() == 409, late);
        equal(refused(ann.order(sale.id())).outcome(), RefusedOutcome.LIMIT_REACHED);
    }

    private static void throttled() throws Exception {
        Sale sale = sale(seller(), lamps());
        String key = fresh("key");
        check(!granted(buyer("throttle-first").withKey(key).order(sale.id())).isReplay(), "it acted twice");
        JsonNode times = requestsWith(key);
        check(times.size() == 2 && times.get(1).asDouble() >= 1, times);
    }

    private static void rateLimit() throws Exception {
        Sale sale = sale(seller(), lamps(100).perUserLimit(100));
        QiangClient ann = buyer("");
        Set<String> orders = new HashSet<>();
        for (int number = 0; number < 23; number++) {
            orders.add(granted(ann.order(sale.id())).grant().id());
        }
        equal(orders.size(), 23);
    }

    private static void lostAnswer() throws Exception {
        String name = fresh("seller");
        QiangClient shop = client(name, SELLER_SCOPES, "").build();
        QiangClient lossy = client(name, SELLER_SCOPES, "drop-first").build();
        String reference = fresh("po");
        Sale sale = sale(lossy, lamps().reference(reference));
        equal(shop.listSales(new ListSalesQuery().reference(reference)).stream().map(Sale::id).toList(),
                List.of(sale.id()));
        String key = fresh("key");
        check(granted(buyer("drop-first").withKey(key).order(sale.id())).isReplay(), "it acted twice");
        equal(requestsWith(key).size(), 2);
        equal(shop.getCampaignState(sale.id()).granted(), 1L);
        lossy.makeDeposit(name, new NewDeposit(700, "CNY", fresh("bank")));
        equal(shop.getAccount(name).balances().get(0).available().amount(), 700L);
    }

    private static void lostRequest() throws Exception {
        QiangClient shop = seller();
        Sale sale = sale(shop, lamps());
        String key = fresh("key");
        check(!granted(buyer("lose-first").withKey(key).order(sale.id())).isReplay(), "it acted twice");
        equal(requestsWith(key).size(), 2);
        equal(shop.getCampaignState(sale.id()).granted(), 1L);
    }

    private static void lateAnswer() throws Exception {
        QiangClient shop = seller();
        Sale sale = sale(shop, lamps());
        QiangClient ann = client(fresh("buyer"), "claim", "late-first").attemptMax(Duration.ofMillis(500)).build();
        check(granted(ann.order(sale.id())).isReplay(), "it acted twice");
        equal(shop.getCampaignState(sale.id()).granted(), 1L);
    }

    private static void gaveUp() throws Exception {
        QiangClient shop = seller();
        Sale sale = sale(shop, lamps());
        String name = fresh("buyer");
        QiangClient deaf = client(name, "claim", "drop-all").deadline(Duration.ofMillis(500)).build();
        NoAnswerException error = error(NoAnswerException.class, () -> deaf.order(sale.id()));
        check(error.mayHaveHappened() && error.attempts() > 1, error);
        check(error.getCause() instanceof LostConnectionException, error);
        QiangClient ann = client(name, "claim", "").build().withKey(error.key());
        check(granted(ann.order(sale.id())).isReplay(), "it acted twice");
        equal(shop.getCampaignState(sale.id()).granted(), 1L);
    }

    private static void noService() throws Exception {
        QiangClient client =
                QiangClient.builder(System.getenv("QIANG_NOWHERE")).deadline(Duration.ofMillis(500)).build();
        NewDeposit deposit = new NewDeposit(1, "CNY", "x");
        NoAnswerException error = error(NoAnswerException.class, () -> client.makeDeposit("ann", deposit));
        check(!error.mayHaveHappened() && error.problem() == null, error);
    }

    private static void gateway() throws Exception {
        Sale sale = sale(seller(), lamps());
        String key = fresh("key");
        check(!granted(buyer("gateway-first").withKey(key).order(sale.id())).isReplay(), "it acted twice");
        equal(requestsWith(key).size(), 3);
        Duration pause = Duration.ofDays(10);
        QiangClient hasty = client(fresh("buyer"), "claim", "gateway-first")
                .deadline(Duration.ofMillis(500))
                .backoff(pause, pause)
                .build();
        NoAnswerException error = error(NoAnswerException.class, () -> hasty.order(sale.id()));
        check(error.mayHaveHappened() && error.problem().status() == 502, error);
        equal(error.kind(), "about:blank");
    }

    private static void paging() throws Exception {
        QiangClient shop = seller();
        Sale sale = sale(shop, lamps(20).perUserLimit(20));
        QiangClient ann = buyer("");
        List<String> first = new ArrayList<>();
        for (int number = 0; number < 7; number++) {
            first.add(0, granted(ann.order(sale.id())).grant().id());
        }
        ListAllOrdersQuery query = new ListAllOrdersQuery().campaign(sale.id());
        waitUntil(() -> !Boolean.FALSE.equals(shop.listAllOrders(query).page().settled()));
        Pager<Order> newest = shop.listAllOrders(new ListAllOrdersQuery().campaign(sale.id()).limit(3));
        List<String> read = new ArrayList<>();
        newest.page().data().forEach(order -> read.add(order.id()));
        // It is newer than all pages that follow.
        granted(ann.order(sale.id()));
        newest.forEach(order -> read.add(order.id()));
        equal(read, first);
        Pager<Order> pager = shop.listOrders(sale.id(), new ListOrdersQuery().limit(3));
        int pages = 0;
        int entries = 0;
        while (!pager.isOver()) {
            entries += pager.page().data().size();
            pages++;
        }
        check(pages >= 3 && entries == 8, pages);
    }

    private static void events() throws Exception {
        QiangClient shop = seller();
        Sale sale = sale(shop, lamps());
        NewWebhook endpoint = new NewWebhook("http://127.0.0.1:9/").campaigns(List.of(sale.id()));
        Webhook hook = shop.createWebhook(endpoint);
        QiangClient ann = buyer("");
        Pager<RecordedEvent> pager = shop.listEvents();
        readEvents(pager, sale, granted(ann.order(sale.id())).grant().id());
        String later = granted(ann.order(sale.id())).grant().id();
        // Another process continues from the kept cursor.
        readEvents(shop.listEvents(new ListEventsQuery().after(pager.cursor())), sale, later);
        shop.deleteWebhook(hook.id());
    }

    private static void readEvents(Pager<RecordedEvent> pager, Sale sale, String order) throws Exception {
        List<Object> found = new ArrayList<>();
        waitUntil(() -> {
            for (RecordedEvent event : pager) {
                if (sale.id().equals(event.data().get("campaign"))) {
                    found.add(event.data().get("order"));
                }
            }
            return !found.isEmpty();
        });
        equal(found, List.of(order));
    }

    private static void webhookSignature() throws Exception {
        JsonNode table = new ObjectMapper().readTree(Path.of(System.getenv("QIANG_SIGNATURES")).toFile());
        Instant now = Instant.ofEpochSecond(table.get("now").asLong());
        for (JsonNode one : table.get("cases")) {
            String[] secrets = new ObjectMapper().convertValue(one.get("secrets"), String[].class);
            JsonNode headers = one.get("headers");
            byte[] body = one.get("body").asText().getBytes(StandardCharsets.UTF_8);
            boolean isAccepted = true;
            try {
                Webhooks.Event event =
                        new Webhooks(secrets).verify(name -> headers.path(name).asText(null), body, now);
                equal(event.type(), "order.paid");
                equal(event.data().user(), "李雷");
            } catch (SignatureException error) {
                isAccepted = false;
            }
            check(isAccepted == one.get("accepted").asBoolean(), one.get("name"));
        }
    }

    private static void payment() throws Exception {
        QiangClient shop = seller();
        Sale sale = sale(shop, lamps());
        String user = fresh("buyer");
        String order = granted(client(user, "claim", "").build().order(sale.id())).grant().id();
        PaymentReport strange = new PaymentReport(order, fresh("pay"), PRICE).user(fresh("other"));
        equal(problem(() -> shop.reportPayment(strange)).type(), ProblemType.USER_MISMATCH);
        String reference = fresh("pay");
        PaymentReport report = new PaymentReport(order, reference, PRICE).user(user).paidAt(Instant.now());
        Payment first = shop.reportPayment(report);
        check(first.outcome() == PaymentOutcome.PAID && first.order().state() == OrderState.PAID, first);
        equal(shop.reportPayment(report).outcome(), PaymentOutcome.PAID);
        PaymentReport second = new PaymentReport(order, fresh("pay"), PRICE).user(user);
        equal(shop.reportPayment(second).outcome(), PaymentOutcome.REFUND_DUE);
        waitUntil(() -> shop.getRefunds(order).due().amount() == PRICE.amount());
        NewRefund refund = new NewRefund(fresh("refund"), PRICE);
        equal(shop.refundOrder(order, refund).reference(), shop.refundOrder(order, refund).reference());
        waitUntil(() -> shop.getRefunds(order).refunded().amount() == PRICE.amount());
        List<PaymentRecordOutcome> listed = new ArrayList<>();
        shop.listPayments(new ListPaymentsQuery().reference(reference)).forEach(one -> listed.add(one.outcome()));
        equal(listed, List.of(PaymentRecordOutcome.PAID));
    }

    private static void cancel() throws Exception {
        QiangClient shop = seller();
        Sale sale = sale(shop, lamps());
        String name = fresh("buyer");
        QiangClient ann = client(name, "claim", "").build();
        QiangClient lossy = client(name, "claim", "drop-first").build();
        String order = granted(ann.order(sale.id(), new NewOrder().quantity(3))).grant().id();
        Order part = lossy.cancelOrder(order, new NewCancellation().quantity(1));
        check(part.quantity() == 2 && part.cancelledQuantity() == 1 && part.state() == OrderState.HELD, part);
        equal(lossy.cancelOrder(order).state(), OrderState.CANCELLED);
        equal(ann.cancelOrder(order).state(), OrderState.CANCELLED);
        equal(shop.getCampaignState(sale.id()).remaining(), 10L);
        String paid = granted(ann.order(sale.id())).grant().id();
        shop.payOrder(paid, new NewPayment(fresh("pay"), PRICE));
        ProblemException conflict = problem(() -> ann.cancelOrder(paid));
        check(conflict.type() == ProblemType.ORDER_CONFLICT && conflict.problem().status() == 409, conflict);
    }

    private static void errors() throws Exception {
        QiangClient shop = seller();
        Sale sale = sale(shop, lamps());
        QiangClient ann = buyer("");
        ProblemException wrong = problem(() -> ann.order(sale.id(), new NewOrder().quantity(0)));
        check(wrong.type() == ProblemType.INVALID && wrong.problem().status() == 422, wrong);
        equal(wrong.problem().errors().get(0).pointer(), "#/quantity");
        check(wrong.problem().requestId() != null, wrong);
        String nowhere = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
        ProblemException unknown = problem(() -> ann.getSale(nowhere));
        check(unknown.kind().equals("unknown-campaign") && unknown.problem().status() == 404, unknown);
        equal(refused(ann.order(nowhere)).outcome(), RefusedOutcome.UNKNOWN_CAMPAIGN);
        ProblemException stranger = problem(() -> shop.withToken("wrong").getAccount("ann"));
        check(stranger.type() == ProblemType.UNAUTHENTICATED && stranger.problem().status() == 401, stranger);
        ProblemException forbidden = problem(() -> sale(ann, lamps()));
        check(forbidden.type() == ProblemType.FORBIDDEN && forbidden.problem().status() == 403, forbidden);
        check(forbidden.problem().scope().contains("campaigns:write"), forbidden);
    }

    private static void newWords() throws Exception {
        Sale sale = sale(seller(), lamps(1).perUserLimit(1));
        QiangClient later = buyer("new-words");
        equal(later.getCampaignState(sale.id()).phase(), Phase.UNKNOWN);
        granted(buyer("").order(sale.id()));
        Refused<Order> late = refused(later.order(sale.id()));
        check(late.outcome() == RefusedOutcome.UNKNOWN && late.problem().type() == ProblemType.UNKNOWN, late);
    }

    private static void ticket() throws Exception {
        QiangClient shop = seller();
        Sale sale = sale(shop, lamps().requirements(List.of(Requirement.TICKET)));
        granted(buyer("").order(sale.id()));
        QiangClient ann = buyer("");
        granted(ann.order(sale.id(), new NewOrder(), ann.getSaleTicket(sale.id())));
        equal(shop.getCampaignState(sale.id()).granted(), 2L);
    }

    private static void queue() throws Exception {
        QiangClient shop = seller();
        Sale sale = sale(shop, lamps().waitingRoom(true));
        shop.pauseCampaign(sale.id());
        QiangClient ann = buyer("");
        check(ann.order(sale.id()) instanceof Waiting<Order> waiting
                && waiting.place().state() == PlaceState.WAITING, "no place");
        check(ann.waitForOrder(sale.id(), Duration.ofMillis(100)) instanceof Waiting<Order>, "it was decided");
        shop.resumeCampaign(sale.id());
        equal(granted(ann.waitForOrder(sale.id(), Duration.ofSeconds(20))).grant().state(), OrderState.HELD);
    }

    private static void change() throws Exception {
        QiangClient shop = seller();
        Sale sale = sale(shop, lamps().description("bright").productId("lamp-1"));
        Sale changed = shop.changeSale(sale.id(), new SaleChange().title("lights").description(null));
        check(changed.title().equals("lights") && changed.description() == null, changed);
        equal(changed.productId(), "lamp-1");
        Map<String, String> metadata = Map.of("channel", "app", "shelf", "4");
        shop.changeCampaignMetadata(sale.id(), new MetadataChange().reference("PO-1").metadata(metadata));
        Map<String, String> removal = new HashMap<>(Collections.singletonMap("shelf", null));
        var left = shop.changeCampaignMetadata(sale.id(), new MetadataChange().metadata(removal));
        equal(left.reference(), "PO-1");
        equal(left.metadata(), Map.of("channel", "app"));
    }

    private static NewSale lamps() {
        return lamps(10).perUserLimit(5);
    }

    private static NewSale lamps(long stock) {
        return new NewSale("lamps", stock, PRICE);
    }

    private static Sale sale(QiangClient shop, NewSale sale) {
        return shop.createSale(sale);
    }

    private static String fresh(String name) {
        return name + "-" + UUID.randomUUID().toString().substring(0, 13);
    }

    private static QiangClient seller() throws Exception {
        return client(fresh("seller"), SELLER_SCOPES, "").build();
    }

    private static QiangClient buyer(String fault) throws Exception {
        return client(fresh("buyer"), "claim", fault).build();
    }

    private static QiangClient.Builder client(String user, String scope, String fault) throws Exception {
        String query = "/_token?user=" + Call.encoded(user) + "&scope=" + Call.encoded(scope);
        String url = fault.isEmpty() ? DIRECT : PROXY + "/" + fault;
        return QiangClient.builder(url).token(get(query));
    }

    private static JsonNode requestsWith(String key) throws Exception {
        return new ObjectMapper().readTree(get("/_seen?key=" + Call.encoded(key)));
    }

    private static String get(String path) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(PROXY + path)).build();
        return HTTP.send(request, HttpResponse.BodyHandlers.ofString()).body();
    }

    private static <T> Granted<T> granted(ClaimResult<T> result) {
        if (result instanceof Granted<T> granted) {
            return granted;
        }
        throw new AssertionError(result);
    }

    private static <T> Refused<T> refused(ClaimResult<T> result) {
        if (result instanceof Refused<T> refused) {
            return refused;
        }
        throw new AssertionError(result);
    }

    private static ProblemException problem(Callable<?> call) throws Exception {
        return error(ProblemException.class, call);
    }

    private static <E extends Exception> E error(Class<E> type, Callable<?> call) throws Exception {
        Object value;
        try {
            value = call.call();
        } catch (QiangException error) {
            check(type.isInstance(error), error);
            return type.cast(error);
        }
        throw new AssertionError("no error: " + value);
    }

    private static void waitUntil(Condition condition) throws Exception {
        long until = System.nanoTime() + Duration.ofSeconds(10).toNanos();
        while (!condition.holds()) {
            check(System.nanoTime() < until, "it took too long");
            Thread.sleep(50);
        }
    }

    private static void equal(Object actual, Object expected) {
        check(expected.equals(actual), actual + " in place of " + expected);
    }

    private static void check(boolean holds, Object about) {
        if (!holds) {
            throw new AssertionError(about);
        }
    }
}
