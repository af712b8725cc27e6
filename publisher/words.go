package publisher

import "strings"

// words are the few phrases that a page adds to what the card says.
type words struct {
	Add, AddHow, Address, QR, Examples, ExamplesNote string
	Details, Publisher, Origin, Version, Card        string
	Endpoint, Website, Source, Apps, AllApps, ListOf string
	SignIn                                           string // stands before the issuers of a protected app
}

// wordsFor gives the phrases in the language of a tag (BCP 47): Chinese in the
// script that the tag names or its region writes, else English.
func wordsFor(lang string) words {
	primary, rest, _ := strings.Cut(strings.ToLower(lang), "-")
	if primary != "zh" {
		return english
	}
	for subtag := range strings.SplitSeq(rest, "-") { // a script stands before a region
		switch subtag {
		case "hans":
			return simplified
		case "hant", "tw", "hk", "mo":
			return traditional
		}
	}
	return simplified
}

var english = words{
	Add:          "Add this app",
	AddHow:       "Paste this address into your agent host, or scan the code. Opening it starts a review only: it gives no access and runs nothing.",
	Address:      "App address",
	QR:           "QR code of this page's address",
	Examples:     "What you can ask",
	ExamplesNote: "Examples are text only. Reading them runs nothing.",
	Details:      "Details",
	Publisher:    "Publisher",
	Origin:       "Origin",
	Version:      "Version",
	Card:         "Server card",
	Endpoint:     "Endpoint",
	Website:      "Website",
	Source:       "Source code",
	Apps:         "Apps",
	AllApps:      "All apps published here",
	ListOf:       "Apps published at",
	SignIn:       "Needs sign-in at",
}

var simplified = words{
	Add:          "添加此应用",
	AddHow:       "把下面的地址粘贴到你的智能体宿主中，或扫描二维码。打开它只会开始一次审查：不会授予任何访问权限，也不会运行任何东西。",
	Address:      "应用地址",
	QR:           "此页面地址的二维码",
	Examples:     "可以这样提问",
	ExamplesNote: "示例只是文字，查看它们不会运行任何东西。",
	Details:      "详细信息",
	Publisher:    "发布者",
	Origin:       "来源",
	Version:      "版本",
	Card:         "应用卡片",
	Endpoint:     "连接端点",
	Website:      "网站",
	Source:       "源代码",
	Apps:         "应用",
	AllApps:      "此处发布的所有应用",
	ListOf:       "应用发布于",
	SignIn:       "需要登录",
}

var traditional = words{
	Add:          "新增此應用程式",
	AddHow:       "將下方位址貼到你的智慧代理宿主中，或掃描 QR 碼。開啟它只會開始一次審查：不會授予任何存取權限，也不會執行任何東西。",
	Address:      "應用程式位址",
	QR:           "此頁面位址的 QR 碼",
	Examples:     "可以這樣提問",
	ExamplesNote: "範例只是文字，檢視它們不會執行任何東西。",
	Details:      "詳細資訊",
	Publisher:    "發布者",
	Origin:       "來源",
	Version:      "版本",
	Card:         "應用程式卡片",
	Endpoint:     "連線端點",
	Website:      "網站",
	Source:       "原始碼",
	Apps:         "應用程式",
	AllApps:      "此處發布的所有應用程式",
	ListOf:       "應用程式發布於",
	SignIn:       "需要登入",
}
