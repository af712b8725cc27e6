package search

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// noise invents apps that have nothing to do with the relevance queries: 60 %
// English, 25 % Chinese, 15 % mixed, publishers and subjects by a Zipf law, the
// same for the same seed.
type noise struct {
	r       *rand.Rand
	brands  *rand.Zipf
	english *rand.Zipf
	chinese *rand.Zipf
	n       int
}

func newNoise(seed uint64) *noise {
	r := rand.New(rand.NewPCG(seed, 99))
	return &noise{
		r: r, brands: rand.NewZipf(r, 1.1, 20, 59_999),
		english: rand.NewZipf(r, 1.2, 8, uint64(len(subjects)-1)),
		chinese: rand.NewZipf(r, 1.2, 8, uint64(len(zhSubjects)-1)),
	}
}

var (
	syllables = strings.Fields("ba ke li mo nu ra si to va wi xo ya zed fin gal hop jun lex mir nor oak pim quo rus sel tam uly ven wex yor zim dax")
	endings   = strings.Fields("com io dev ai cn net org app cloud com.cn")
	subjects  = strings.Fields(`warehouse payroll contract budget report customer supplier order delivery truck ferry taxi parking
		museum concert cinema novel recipe farm tractor harvest seed cattle greenhouse server backup incident alert metric log
		certificate firewall passport permit tax license election council school exam homework teacher student library hospital
		clinic pharmacy nurse vaccine insurance claim mortgage rent lease apartment elevator plumber electrician paint furniture
		lamp curtain carpet garden fence bicycle helmet tyre engine fuel battery charger cable router modem printer scanner
		keyboard monitor camera lens photo video podcast radio song lyric guitar piano violin drum choir theatre ballet yoga gym
		swimming tennis football referee stadium league jersey shoe dress tailor fabric button jewel watch perfume soap towel
		hotel hostel tent trail map compass island beach lagoon canyon desert forest timber sawmill paper ink envelope stamp
		courier crate pallet forklift crane bridge tunnel highway tram depot platform timetable luggage visa currency loan bond
		fund dividend ledger audit voucher coupon basket checkout refund review survey newsletter campaign banner logo font`)
	nouns      = strings.Fields("list record plan summary draft file note request change history status detail group member task template rule limit score chart")
	verbs      = strings.Fields("create update find compare export import archive share approve reject assign merge sort filter count check print send copy rename")
	adjectives = strings.Fields("quick daily monthly shared private local remote simple secure smart final open late early large small new old public hidden")
	stock      = strings.Fields(`works with every plan and needs no setup data stays in your region support answers within one day
		connects to the tools that teams already use results are exported as plain files for later`)
	zhSubjects = strings.Fields(`仓库 工资 合同 预算 报表 客户 供应商 订单 卡车 渡轮 停车 博物馆 演出 电影 小说 菜谱 农场 拖拉机 收割 种子 温室 服务器
		备份 告警 日志 证书 防火墙 护照 许可 税务 选举 学校 考试 作业 教师 学生 图书馆 医院 诊所 药房 护士 疫苗 保险 理赔 房贷 租金 公寓
		电梯 水管 油漆 家具 地毯 花园 自行车 头盔 轮胎 发动机 电池 充电 路由 打印 扫描 键盘 相机 照片 视频 播客 广播 歌曲 吉他 钢琴 合唱
		剧院 瑜伽 游泳 网球 足球 球场 联赛 鞋子 裁缝 布料 手表 香水 酒店 帐篷 步道 地图 海岛 沙滩 峡谷 森林 造纸 邮票 托盘 吊车 桥梁 隧道`)
	zhNouns  = strings.Fields("清单 记录 计划 摘要 草稿 文件 备注 请求 变更 历史 状态 详情 分组 成员 任务 模板 规则 额度 评分 图表")
	zhVerbs  = strings.Fields("创建 更新 查找 比较 导出 导入 归档 分享 审批 驳回 分配 合并 排序 筛选 统计 检查 发送 复制")
	zhStock  = strings.Fields("支持多人协作 数据安全可靠 操作简单上手快 适合中小企业 无需安装即可使用 提供完整接口 全天在线服务")
	zhEnding = strings.Fields("助手 管家 通 平台 大师")
)

func (z *noise) one(list []string) string { return list[z.r.IntN(len(list))] }

func (z *noise) app() app {
	z.n++
	brand := uint64(z.brands.Uint64())*2_654_435_761%uint64(len(syllables)*len(syllables)*len(syllables)) + 0
	l := uint64(len(syllables))
	name := syllables[brand%l] + syllables[brand/l%l] + syllables[brand/l/l]
	ending := endings[brand%uint64(len(endings))]
	host := name + "." + ending
	en := func() string { return subjects[z.english.Uint64()] }
	zh := func() string { return zhSubjects[z.chinese.Uint64()] }
	subject, noun := en(), z.one(nouns)
	a := app{
		URL:  fmt.Sprintf("https://%s/mcp/%d/server-card", host, z.n),
		Name: reverse(host) + "/" + subject + "-" + noun,
	}
	title := strings.ToUpper(name[:1]) + name[1:]
	english := fmt.Sprintf("%s %s %s %s and %s %s for %s %s, %s %s. ", z.one(verbs), z.one(adjectives), subject, noun, z.one(verbs),
		z.one(nouns), en(), z.one(nouns), z.one(verbs), en()) + strings.Join(stock[z.r.IntN(len(stock)-9):][:9], " ")
	zhSubject, zhNoun := zh(), z.one(zhNouns)
	chinese := fmt.Sprintf("%s%s%s；%s%s并%s%s；%s；%s；%s%s相关%s。", z.one(zhVerbs), zhSubject, zhNoun, z.one(zhVerbs), z.one(zhNouns),
		z.one(zhVerbs), z.one(zhNouns), z.one(zhStock), z.one(zhStock), z.one(zhVerbs), zh(), z.one(zhNouns))
	enPrompts := []string{z.one(verbs) + " the latest " + subject + " " + noun + " for my " + z.one(nouns), "Show " + subject + " " + noun + " from last week"}
	zhPrompts := []string{"帮我" + z.one(zhVerbs) + "本周的" + zhSubject + zhNoun, "显示最近的" + zhSubject + zhNoun}
	switch kind := z.r.IntN(100); {
	case kind < 60:
		a.Title, a.Description = title+" "+subject, english
		a.Tags, a.Prompts = []string{subject, noun, en()}, enPrompts
	case kind < 85:
		a.Title, a.Description = zhSubject+z.one(zhEnding), chinese
		a.Tags, a.Prompts = []string{zhSubject, zhNoun}, zhPrompts
	default:
		a.Title, a.Description = title+" "+zhSubject+"助手", chinese+z.one(verbs)+" "+subject+" "+noun+" API."
		a.Tags, a.Prompts = []string{subject, zhSubject}, []string{zhPrompts[0], enPrompts[0]}
	}
	if len(a.Description) > 100 {
		// A card's own description has at most 100 characters; the catalog's
		// says it all.
		a.CatalogText, a.Description = a.Description, a.Title
	}
	return a
}

func reverse(host string) string {
	labels := strings.Split(host, ".")
	for i, k := 0, len(labels)-1; i < k; i, k = i+1, k-1 {
		labels[i], labels[k] = labels[k], labels[i]
	}
	return strings.Join(labels, ".")
}
