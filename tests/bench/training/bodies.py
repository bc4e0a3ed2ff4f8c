"""The parts in which training scripts differ: model, data and loop, each with a ``main`` of its own."""

CLASSIFIER = """\
class Block(nn.Module):
    def __init__(self, channels, out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, hidden, classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, hidden, 3, 1, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU())
        self.layer1 = nn.Sequential(Block(hidden, hidden), Block(hidden, hidden))
        self.layer2 = nn.Sequential(Block(hidden, 2 * hidden, 2), Block(2 * hidden, 2 * hidden))
        self.layer3 = nn.Sequential(Block(2 * hidden, 4 * hidden, 2), Block(4 * hidden, 4 * hidden))
        self.fc = nn.Linear(4 * hidden, classes)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.stem(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def accuracy(logits, target, topk=(1,)):
    with torch.no_grad():
        _, pred = logits.topk(max(topk), 1)
        correct = pred.t().eq(target.view(1, -1))
        return [correct[:k].reshape(-1).float().sum().item() / len(target) for k in topk]


def evaluate(model, loader, device):
    model.eval()
    losses, top1 = AverageMeter("loss"), AverageMeter("top1")
    with torch.no_grad():
        for images, target in loader:
            images, target = images.to(device), target.to(device)
            logits = model(images)
            losses.update(F.cross_entropy(logits, target).item(), len(target))
            top1.update(accuracy(logits, target)[0], len(target))
    model.train()
    return losses.mean, top1.mean


def main():
    args = parse_args()
    set_seed(args.seed)
    device = torch.device("cuda" if args.cuda and torch.cuda.is_available() else "cpu")
    data = TensorDataset(torch.randn(512, 3, 32, 32), torch.randint(0, 10, (512,)))
    held_out = TensorDataset(torch.randn(128, 3, 32, 32), torch.randint(0, 10, (128,)))
    loader = DataLoader(data, args.batch_size, shuffle=True)
    test_loader = DataLoader(held_out, args.batch_size)
    model = ResNet(args.hidden).to(device)
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=args.weight_decay)
    start = load_checkpoint(args.resume, model, optimizer) if args.resume else 0
    logger = Logger(args.output, args.log_every)
    best, step = 0.0, start
    for epoch in range(args.epochs):
        for images, target in loader:
            images, target = images.to(device), target.to(device)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, args, args.epochs * len(loader))
            logits = model(images)
            loss = F.cross_entropy(logits, target, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            optimizer.step()
            logger.scalar("loss", loss.item(), step)
            logger.scalar("accuracy", accuracy(logits, target)[0], step)
            step += 1
        _, score = evaluate(model, test_loader, device)
        if score > best:
            best = score
            save_checkpoint(os.path.join(args.output, "best.pt"), model, optimizer, step)
    logger.close()
"""

GAN = """\
class Generator(nn.Module):
    def __init__(self, latent, hidden, pixels=784):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(latent, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, 2 * hidden), nn.BatchNorm1d(2 * hidden),
            nn.LeakyReLU(0.2), nn.Linear(2 * hidden, pixels), nn.Tanh(),
        )

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self, hidden, pixels=784):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(pixels, 2 * hidden), nn.LeakyReLU(0.2), nn.Dropout(0.3))
        self.head = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.head(self.features(x)).squeeze(1)


def gradient_penalty(critic, real, fake):
    alpha = torch.rand(real.size(0), 1, device=real.device)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    scores = critic(mixed)
    (gradient,) = torch.autograd.grad(scores.sum(), mixed, create_graph=True)
    return ((gradient.norm(2, dim=1) - 1) ** 2).mean()


def sample(generator, count, latent, device):
    generator.eval()
    with torch.no_grad():
        images = generator(torch.randn(count, latent, device=device))
    generator.train()
    return images.cpu().numpy()


def main():
    args = parse_args()
    set_seed(args.seed)
    device = torch.device("cuda" if args.cuda and torch.cuda.is_available() else "cpu")
    latent = 64
    loader = DataLoader(TensorDataset(torch.rand(1024, 784) * 2 - 1), args.batch_size, shuffle=True, drop_last=True)
    netG, netD = Generator(latent, args.hidden).to(device), Discriminator(args.hidden).to(device)
    optimizerG = optim.Adam(netG.parameters(), lr=args.lr, betas=(0.5, 0.999))
    optimizerD = optim.Adam(netD.parameters(), lr=args.lr, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    logger = Logger(args.output, args.log_every)
    fixed = torch.randn(16, latent, device=device)
    step = 0
    for epoch in range(args.epochs):
        for (real,) in loader:
            real = real.to(device)
            ones, zeros = torch.ones(len(real), device=device), torch.zeros(len(real), device=device)
            fake = netG(torch.randn(len(real), latent, device=device))
            optimizerD.zero_grad()
            errD_real = criterion(netD(real), ones)
            errD_fake = criterion(netD(fake.detach()), zeros)
            errD = errD_real + errD_fake + 10 * gradient_penalty(netD, real, fake.detach())
            errD.backward()
            optimizerD.step()
            optimizerG.zero_grad()
            errG = criterion(netD(fake), ones)
            errG.backward()
            optimizerG.step()
            logger.scalar("loss_d", errD.item(), step)
            logger.scalar("loss_g", errG.item(), step)
            if step % args.save_every == 0:
                save_checkpoint(os.path.join(args.output, "netG.pt"), netG, optimizerG, step)
            step += 1
        images = sample(netG, 16, latent, device)
        print(f"epoch {epoch}: sample range {images.min():.2f} to {images.max():.2f}")
    logger.close()
"""

PPO = '''\
class PointEnv:
    """A point that is to be moved to the middle."""

    def __init__(self, size=4):
        self.size = size
        self.reset()

    def reset(self):
        self.position = np.random.randn(self.size).astype(np.float32)
        self.steps = 0
        return self.position

    def step(self, action):
        self.position[action % self.size] *= 0.9
        self.steps += 1
        reward = -float(np.abs(self.position).sum())
        done = self.steps >= 200
        return self.position, reward, done


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self, observations, actions, hidden):
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(observations, hidden)), nn.Tanh(), layer_init(nn.Linear(hidden, 1), std=1.0)
        )
        self.actor = nn.Sequential(
            layer_init(nn.Linear(observations, hidden)), nn.Tanh(), layer_init(nn.Linear(hidden, actions), std=0.01)
        )

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        probs = torch.distributions.Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


def main():
    args = parse_args()
    set_seed(args.seed)
    device = torch.device("cuda" if args.cuda and torch.cuda.is_available() else "cpu")
    num_steps, gamma, gae_lambda, clip_coef, ent_coef, vf_coef, minibatches = 128, 0.99, 0.95, 0.2, 0.01, 0.5, 4
    env = PointEnv()
    agent = Agent(4, 4, args.hidden).to(device)
    optimizer = optim.Adam(agent.parameters(), lr=args.lr, eps=1e-5)
    logger = Logger(args.output, args.log_every)
    obs = torch.zeros((num_steps, 4)).to(device)
    actions = torch.zeros(num_steps).to(device)
    logprobs = torch.zeros(num_steps).to(device)
    rewards = torch.zeros(num_steps).to(device)
    dones = torch.zeros(num_steps).to(device)
    values = torch.zeros(num_steps).to(device)
    global_step, episodic = 0, 0.0
    next_obs = torch.tensor(env.reset()).to(device)
    next_done = torch.zeros(()).to(device)
    for update in range(1, args.epochs + 1):
        if args.anneal:
            frac = 1.0 - (update - 1.0) / args.epochs
            optimizer.param_groups[0]["lr"] = frac * args.lr
        for step in range(num_steps):
            global_step += 1
            obs[step] = next_obs
            dones[step] = next_done
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(next_obs)
                values[step] = value.flatten()
            actions[step] = action
            logprobs[step] = logprob
            state, reward, done = env.step(action.item())
            episodic += reward
            rewards[step] = torch.tensor(reward).to(device)
            if done:
                logger.scalar("return", episodic, global_step)
                state, episodic = env.reset(), 0.0
            next_obs = torch.tensor(state).to(device)
            next_done = torch.tensor(float(done)).to(device)
        with torch.no_grad():
            next_value = agent.get_value(next_obs).reshape(-1)
            advantages = torch.zeros_like(rewards).to(device)
            lastgaelam = 0
            for t in reversed(range(num_steps)):
                if t == num_steps - 1:
                    nextnonterminal, nextvalues = 1.0 - next_done, next_value
                else:
                    nextnonterminal, nextvalues = 1.0 - dones[t + 1], values[t + 1]
                delta = rewards[t] + gamma * nextvalues * nextnonterminal - values[t]
                advantages[t] = lastgaelam = delta + gamma * gae_lambda * nextnonterminal * lastgaelam
            returns = advantages + values
        inds = np.arange(num_steps)
        clipfracs = []
        for epoch in range(4):
            np.random.shuffle(inds)
            for start in range(0, num_steps, num_steps // minibatches):
                mb = inds[start : start + num_steps // minibatches]
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(obs[mb], actions.long()[mb])
                logratio = newlogprob - logprobs[mb]
                ratio = logratio.exp()
                with torch.no_grad():
                    approx_kl = ((ratio - 1) - logratio).mean()
                    clipfracs += [((ratio - 1.0).abs() > clip_coef).float().mean().item()]
                mb_adv = advantages[mb]
                mb_adv = (mb_adv - mb_adv.mean()) / (mb_adv.std() + 1e-8)
                pg_loss = torch.max(-mb_adv * ratio, -mb_adv * torch.clamp(ratio, 1 - clip_coef, 1 + clip_coef)).mean()
                v_loss = 0.5 * ((newvalue.view(-1) - returns[mb]) ** 2).mean()
                loss = pg_loss - ent_coef * entropy.mean() + v_loss * vf_coef
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.clip)
                optimizer.step()
            if approx_kl > 0.05:
                break
        logger.scalar("value_loss", v_loss.item(), global_step)
        logger.scalar("policy_loss", pg_loss.item(), global_step)
        logger.scalar("clipfrac", np.mean(clipfracs), global_step)
    logger.close()
'''

DQN = """\
class ReplayBuffer:
    def __init__(self, capacity):
        self.items = deque(maxlen=capacity)

    def add(self, state, action, reward, following, done):
        self.items.append((state, action, reward, following, done))

    def sample(self, size):
        states, actions, rewards, following, dones = zip(*random.sample(self.items, size))
        return (
            torch.tensor(np.array(states)), torch.tensor(actions), torch.tensor(rewards, dtype=torch.float32),
            torch.tensor(np.array(following)), torch.tensor(dones, dtype=torch.float32),
        )

    def __len__(self):
        return len(self.items)


class QNetwork(nn.Module):
    def __init__(self, observations, actions, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observations, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.value = nn.Linear(hidden, 1)
        self.advantage = nn.Linear(hidden, actions)

    def forward(self, x):
        x = self.body(x)
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(1, keepdim=True)


def linear_schedule(start, end, duration, t):
    return max((end - start) / duration * t + start, end)


class Walk:
    def reset(self):
        self.at, self.steps = np.zeros(4, dtype=np.float32), 0
        return self.at.copy()

    def step(self, action):
        self.at[action] += 1.0
        self.steps += 1
        return self.at.copy(), float(self.at[0] - self.at[1]), self.steps >= 50


def main():
    args = parse_args()
    set_seed(args.seed)
    device = torch.device("cuda" if args.cuda and torch.cuda.is_available() else "cpu")
    env, buffer = Walk(), ReplayBuffer(10_000)
    q_network = QNetwork(4, 4, args.hidden).to(device)
    target_network = QNetwork(4, 4, args.hidden).to(device)
    target_network.load_state_dict(q_network.state_dict())
    optimizer = optim.Adam(q_network.parameters(), lr=args.lr)
    logger = Logger(args.output, args.log_every)
    state, score = env.reset(), 0.0
    for step in range(args.epochs * 1000):
        epsilon = linear_schedule(1.0, 0.05, 5000, step)
        if random.random() < epsilon:
            action = random.randrange(4)
        else:
            q_values = q_network(torch.tensor(state).unsqueeze(0).to(device))
            action = torch.argmax(q_values, dim=1).item()
        following, reward, done = env.step(action)
        buffer.add(state, action, reward, following, done)
        state, score = following, score + reward
        if done:
            logger.scalar("return", score, step)
            state, score = env.reset(), 0.0
        if len(buffer) >= 1000 and step % 4 == 0:
            states, actions, rewards, nexts, dones = (x.to(device) for x in buffer.sample(args.batch_size))
            with torch.no_grad():
                best = q_network(nexts).argmax(1, keepdim=True)
                target_max = target_network(nexts).gather(1, best).squeeze(1)
                td_target = rewards + 0.99 * target_max * (1 - dones)
            old_val = q_network(states).gather(1, actions.unsqueeze(1)).squeeze(1)
            loss = F.smooth_l1_loss(old_val, td_target)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(q_network.parameters(), args.clip)
            optimizer.step()
            logger.scalar("td_loss", loss.item(), step)
            if step % 500 == 0:
                for target, online in zip(target_network.parameters(), q_network.parameters()):
                    target.data.copy_(0.995 * target.data + 0.005 * online.data)
    logger.close()
"""

LANGUAGE = """\
class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads, block):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("mask", torch.tril(torch.ones(block, block)).view(1, 1, block, block))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q = q.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        k = k.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        v = v.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        att = self.dropout(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


class TransformerBlock(nn.Module):
    def __init__(self, width, heads, block):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = CausalSelfAttention(width, heads, block)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary, width, layers=4, heads=4, block=64):
        super().__init__()
        self.block = block
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(block, width)
        self.blocks = nn.ModuleList([TransformerBlock(width, heads, block) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.wte.weight = self.head.weight
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)

    def forward(self, idx, targets=None):
        positions = torch.arange(0, idx.size(1), device=idx.device)
        x = self.wte(idx) + self.wpe(positions)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, count, temperature=1.0):
        for _ in range(count):
            logits, _ = self(idx[:, -self.block :])
            probs = F.softmax(logits[:, -1, :] / temperature, dim=-1)
            idx = torch.cat((idx, torch.multinomial(probs, num_samples=1)), dim=1)
        return idx


def get_batch(data, block, size, device):
    ix = torch.randint(len(data) - block - 1, (size,))
    x = torch.stack([data[i : i + block] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + block] for i in ix])
    return x.to(device), y.to(device)


@torch.no_grad()
def estimate_loss(model, data, args, device):
    model.eval()
    losses = torch.zeros(10)
    for k in range(10):
        x, y = get_batch(data, model.block, args.batch_size, device)
        _, loss = model(x, y)
        losses[k] = loss.item()
    model.train()
    return losses.mean().item()


def main():
    args = parse_args()
    set_seed(args.seed)
    device = torch.device("cuda" if args.cuda and torch.cuda.is_available() else "cpu")
    data = torch.randint(0, 65, (10_000,))
    model = GPT(65, args.hidden).to(device)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": args.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    optimizer = optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95))
    logger = Logger(args.output, args.log_every)
    accumulate = 4
    print(f"{count_parameters(model)} parameters")
    for step in range(args.epochs * 100):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args, args.epochs * 100)
        optimizer.zero_grad(set_to_none=True)
        for micro in range(accumulate):
            x, y = get_batch(data, model.block, args.batch_size, device)
            logits, loss = model(x, y)
            loss = loss / accumulate
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        logger.scalar("loss", loss.item() * accumulate, step)
        if step % args.save_every == 0:
            print(f"held out: {estimate_loss(model, data, args, device):.4f}")
            save_checkpoint(os.path.join(args.output, "ckpt.pt"), model, optimizer, step)
    print(model.generate(torch.zeros((1, 1), dtype=torch.long, device=device), 100)[0].tolist())
    logger.close()
"""

VAE = """\
class VAE(nn.Module):
    def __init__(self, hidden, latent=16, pixels=784):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(pixels, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.mu, self.logvar = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, pixels))

    def encode(self, x):
        h = self.encoder(x)
        return self.mu(h), self.logvar(h)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 784))
        z = self.reparameterize(mu, logvar)
        return torch.sigmoid(self.decoder(z)), mu, logvar


def loss_function(recon_x, x, mu, logvar, beta):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 784), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + beta * KLD, BCE, KLD


def train(epoch, model, loader, optimizer, logger, args, device):
    model.train()
    train_loss = 0
    beta = min(1.0, (epoch + 1) / 5)
    for batch_idx, (data,) in enumerate(loader):
        data = data.to(device)
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data)
        loss, bce, kld = loss_function(recon_batch, data, mu, logvar, beta)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
        if batch_idx % args.log_every == 0:
            done = 100.0 * batch_idx / len(loader)
            print(f"epoch {epoch} [{done:.0f} %] loss {loss.item() / len(data):.4f} bce {bce.item():.1f}")
        logger.scalar("kld", kld.item(), epoch * len(loader) + batch_idx)
    return train_loss / len(loader.dataset)


def test(model, loader, device):
    model.eval()
    test_loss = 0
    with torch.no_grad():
        for (data,) in loader:
            data = data.to(device)
            recon_batch, mu, logvar = model(data)
            test_loss += loss_function(recon_batch, data, mu, logvar, 1.0)[0].item()
    return test_loss / len(loader.dataset)


def main():
    args = parse_args()
    set_seed(args.seed)
    device = torch.device("cuda" if args.cuda and torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.rand(1024, 1, 28, 28)), args.batch_size, shuffle=True)
    test_loader = DataLoader(TensorDataset(torch.rand(256, 1, 28, 28)), args.batch_size)
    model = VAE(args.hidden).to(device)
    optimizer = optim.Adam(model.parameters(), lr=args.lr)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2)
    logger = Logger(args.output, args.log_every)
    history = []
    for epoch in range(args.epochs):
        loss = train(epoch, model, loader, optimizer, logger, args, device)
        held_out = test(model, test_loader, device)
        scheduler.step(held_out)
        history.append((loss, held_out))
        if held_out <= min(other for _, other in history):
            save_checkpoint(os.path.join(args.output, "vae.pt"), model, optimizer, epoch)
    logger.close()
"""

SEQ2SEQ = """\
class Encoder(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, width, num_layers=2, batch_first=True, dropout=0.1)

    def forward(self, tokens):
        return self.rnn(self.embedding(tokens))


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.score = nn.Linear(width, 1)

    def forward(self, hidden, outputs):
        energy = torch.tanh(self.query(hidden).unsqueeze(1) + self.key(outputs))
        weights = F.softmax(self.score(energy).squeeze(2), dim=1)
        return torch.bmm(weights.unsqueeze(1), outputs).squeeze(1), weights


class Decoder(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.attention = Attention(width)
        self.rnn = nn.LSTM(2 * width, width, num_layers=2, batch_first=True)
        self.out = nn.Linear(2 * width, vocabulary)

    def forward(self, token, state, outputs):
        context, _ = self.attention(state[0][-1], outputs)
        x = torch.cat((self.embedding(token), context), dim=1).unsqueeze(1)
        output, state = self.rnn(x, state)
        return self.out(torch.cat((output.squeeze(1), context), dim=1)), state


class Seq2Seq(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.encoder, self.decoder = Encoder(vocabulary, width), Decoder(vocabulary, width)

    def forward(self, source, target, teacher_forcing=0.5):
        outputs, state = self.encoder(source)
        token = target[:, 0]
        logits = []
        for t in range(1, target.size(1)):
            step, state = self.decoder(token, state, outputs)
            logits.append(step)
            token = target[:, t] if random.random() < teacher_forcing else step.argmax(1)
        return torch.stack(logits, dim=1)


def bleu_like(logits, target):
    with torch.no_grad():
        return (logits.argmax(2) == target).float().mean().item()


def main():
    args = parse_args()
    set_seed(args.seed)
    device = torch.device("cuda" if args.cuda and torch.cuda.is_available() else "cpu")
    pairs = TensorDataset(torch.randint(3, 100, (512, 12)), torch.randint(3, 100, (512, 10)))
    loader = DataLoader(pairs, args.batch_size, shuffle=True)
    model = Seq2Seq(100, args.hidden).to(device)
    optimizer = optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss(ignore_index=0)
    logger = Logger(args.output, args.log_every)
    step, patience, best = 0, 0, float("inf")
    for epoch in range(args.epochs):
        total = 0.0
        for source, target in loader:
            source, target = source.to(device), target.to(device)
            logits = model(source, target, teacher_forcing=max(0.1, 0.9 - 0.05 * epoch))
            loss = criterion(logits.reshape(-1, logits.size(-1)), target[:, 1:].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            optimizer.step()
            total += loss.item()
            logger.scalar("loss", loss.item(), step)
            logger.scalar("norm", norm.item(), step)
            logger.scalar("bleu", bleu_like(logits, target[:, 1:]), step)
            step += 1
        if total < best:
            best, patience = total, 0
            save_checkpoint(os.path.join(args.output, "best.pt"), model, optimizer, step)
        else:
            patience += 1
            if patience > 3:
                break
    logger.close()
"""

CONTRASTIVE = """\
class Projector(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, out))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


class MomentumContrast(nn.Module):
    def __init__(self, width, out=32, queue=256, momentum=0.99, temperature=0.1):
        super().__init__()
        self.momentum, self.temperature = momentum, temperature
        self.encoder_q = nn.Sequential(nn.Linear(64, width), nn.ReLU(), Projector(width, out))
        self.encoder_k = nn.Sequential(nn.Linear(64, width), nn.ReLU(), Projector(width, out))
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.data.copy_(q.data)
            k.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(out, queue), dim=0))
        self.register_buffer("pointer", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def update_key_encoder(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.data = k.data * self.momentum + q.data * (1.0 - self.momentum)

    @torch.no_grad()
    def enqueue(self, keys):
        size, at = keys.size(0), int(self.pointer)
        self.queue[:, at : at + size] = keys.t()
        self.pointer[0] = (at + size) % self.queue.size(1)

    def forward(self, first, second):
        q = self.encoder_q(first)
        with torch.no_grad():
            self.update_key_encoder()
            k = self.encoder_k(second)
        positive = torch.einsum("nc,nc->n", q, k).unsqueeze(1)
        negative = torch.einsum("nc,ck->nk", q, self.queue.clone().detach())
        logits = torch.cat([positive, negative], dim=1) / self.temperature
        labels = torch.zeros(logits.size(0), dtype=torch.long, device=logits.device)
        self.enqueue(k)
        return logits, labels


def augment(x):
    noise = 0.1 * torch.randn_like(x)
    mask = (torch.rand_like(x) > 0.1).float()
    return (x + noise) * mask


def main():
    args = parse_args()
    set_seed(args.seed)
    device = torch.device("cuda" if args.cuda and torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(1024, 64)), args.batch_size, shuffle=True, drop_last=True)
    model = MomentumContrast(args.hidden).to(device)
    optimizer = optim.SGD(model.encoder_q.parameters(), lr=args.lr, momentum=0.9, weight_decay=args.weight_decay)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    logger = Logger(args.output, args.log_every)
    step = 0
    for epoch in range(args.epochs):
        for (x,) in loader:
            x = x.to(device)
            logits, labels = model(augment(x), augment(x))
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            logger.scalar("loss", loss.item(), step)
            logger.scalar("top1", (logits.argmax(1) == labels).float().mean().item(), step)
            step += 1
        scheduler.step()
        save_checkpoint(os.path.join(args.output, "moco.pt"), model, optimizer, step)
    logger.close()
"""

DISTILLATION = """\
class Teacher(nn.Module):
    def __init__(self, width, classes=10):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, width), nn.Linear(width, width), nn.Linear(width, width)])
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        hidden = []
        for layer in self.layers:
            x = F.relu(layer(x))
            hidden.append(x)
        return self.head(x), hidden


class Student(nn.Module):
    def __init__(self, width, classes=10):
        super().__init__()
        self.first, self.second = nn.Linear(64, width // 2), nn.Linear(width // 2, width // 2)
        self.hint = nn.Linear(width // 2, width)
        self.head = nn.Linear(width // 2, classes)

    def forward(self, x):
        x = F.relu(self.first(x))
        x = F.relu(self.second(x))
        return self.head(x), self.hint(x)


def distillation_loss(student, teacher, labels, temperature, alpha):
    soft = F.kl_div(
        F.log_softmax(student / temperature, dim=1), F.softmax(teacher / temperature, dim=1), reduction="batchmean"
    )
    return alpha * temperature**2 * soft + (1 - alpha) * F.cross_entropy(student, labels)


def pretrain(teacher, loader, optimizer, epochs, device):
    for epoch in range(epochs):
        for x, y in loader:
            logits, _ = teacher(x.to(device))
            loss = F.cross_entropy(logits, y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def main():
    args = parse_args()
    set_seed(args.seed)
    device = torch.device("cuda" if args.cuda and torch.cuda.is_available() else "cpu")
    data = TensorDataset(torch.randn(1024, 64), torch.randint(0, 10, (1024,)))
    loader = DataLoader(data, args.batch_size, shuffle=True)
    teacher, student = Teacher(args.hidden).to(device), Student(args.hidden).to(device)
    pretrain(teacher, loader, optim.Adam(teacher.parameters(), lr=args.lr), 2, device)
    teacher.eval()
    for parameter in teacher.parameters():
        parameter.requires_grad_(False)
    optimizer = optim.AdamW(student.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    logger = Logger(args.output, args.log_every)
    step = 0
    for epoch in range(args.epochs):
        student.train()
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            with torch.no_grad():
                teacher_logits, features = teacher(x)
            logits, hint = student(x)
            loss = distillation_loss(logits, teacher_logits, y, 4.0, 0.7)
            hint_loss = F.mse_loss(hint, features[-1])
            total = loss + 0.1 * hint_loss
            optimizer.zero_grad()
            total.backward()
            nn.utils.clip_grad_norm_(student.parameters(), args.clip)
            optimizer.step()
            logger.scalar("loss", loss.item(), step)
            logger.scalar("hint", hint_loss.item(), step)
            step += 1
        student.eval()
        with torch.no_grad():
            right = sum((student(x.to(device))[0].argmax(1).cpu() == y).sum().item() for x, y in loader)
        print(f"epoch {epoch}: {right / len(data):.3f}")
    logger.close()
"""

DIFFUSION = """\
class TimeEmbedding(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.net = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, t):
        half = self.width // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / half)
        angles = t[:, None].float() * freqs[None]
        return self.net(torch.cat([angles.sin(), angles.cos()], dim=-1))


class Denoiser(nn.Module):
    def __init__(self, width, pixels=64):
        super().__init__()
        self.time = TimeEmbedding(width)
        self.inp, self.mid, self.out = nn.Linear(pixels, width), nn.Linear(width, width), nn.Linear(width, pixels)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, t):
        h = F.silu(self.inp(x) + self.time(t))
        h = h + F.silu(self.mid(self.norm(h)))
        return self.out(h)


class Diffusion:
    def __init__(self, steps, device):
        self.steps = steps
        self.betas = torch.linspace(1e-4, 0.02, steps, device=device)
        self.alphas = 1.0 - self.betas
        self.alpha_bar = torch.cumprod(self.alphas, dim=0)

    def noised(self, x, t):
        noise = torch.randn_like(x)
        a = self.alpha_bar[t][:, None]
        return a.sqrt() * x + (1 - a).sqrt() * noise, noise

    @torch.no_grad()
    def sample(self, model, shape, device):
        x = torch.randn(shape, device=device)
        for i in reversed(range(self.steps)):
            t = torch.full((shape[0],), i, device=device)
            predicted = model(x, t)
            mean = (x - self.betas[i] / (1 - self.alpha_bar[i]).sqrt() * predicted) / self.alphas[i].sqrt()
            x = mean + self.betas[i].sqrt() * torch.randn_like(x) if i > 0 else mean
        return x


def update_ema(ema, model, decay):
    with torch.no_grad():
        for slow, fast in zip(ema.parameters(), model.parameters()):
            slow.mul_(decay).add_(fast, alpha=1 - decay)


def main():
    args = parse_args()
    set_seed(args.seed)
    device = torch.device("cuda" if args.cuda and torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(1024, 64)), args.batch_size, shuffle=True)
    model, ema = Denoiser(args.hidden).to(device), Denoiser(args.hidden).to(device)
    ema.load_state_dict(model.state_dict())
    diffusion = Diffusion(100, device)
    optimizer = optim.AdamW(model.parameters(), lr=args.lr)
    logger = Logger(args.output, args.log_every)
    step = 0
    for epoch in range(args.epochs):
        for (x,) in loader:
            x = x.to(device)
            t = torch.randint(0, diffusion.steps, (len(x),), device=device)
            noisy, noise = diffusion.noised(x, t)
            loss = F.mse_loss(model(noisy, t), noise)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, args, args.epochs * len(loader))
            optimizer.step()
            update_ema(ema, model, 0.999)
            logger.scalar("loss", loss.item(), step)
            step += 1
        images = diffusion.sample(ema, (4, 64), device)
        print(f"epoch {epoch}: std {images.std().item():.3f}")
        save_checkpoint(os.path.join(args.output, "ema.pt"), ema, optimizer, step)
    logger.close()
"""
